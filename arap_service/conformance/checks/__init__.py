"""The checks, a module for each group; each stands with the sentence that it looks at."""
