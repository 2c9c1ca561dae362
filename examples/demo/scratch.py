"""The scratch repository that the demonstration's agent works on: made anew, never the user's own."""

import subprocess
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class ScratchRepository:
    """A git repository with one commit and an identity of its own."""

    path: Path

    @classmethod
    def create(cls, path: Path) -> "ScratchRepository":
        """Make `path` a repository with a first commit; the user's git configuration stays out of it."""
        path.mkdir(parents=True)
        repository = cls(path)
        repository.git("init", "--quiet", "--initial-branch=main")
        repository.git("config", "user.name", "Demo Agent")
        repository.git("config", "user.email", "agent@demo.example")
        repository.git("config", "commit.gpgsign", "false")
        (path / "README.md").write_text("# Payments service\n\nA scratch repository for the demonstration.\n")
        repository.git("add", "README.md")
        repository.git("commit", "--quiet", "-m", "Start the payments service")
        return repository

    def git(self, *arguments: str) -> str:
        """Run git here and return what it printed; raises CalledProcessError when git refuses."""
        command = ["git", "-c", "core.hooksPath=/dev/null", "-C", str(self.path), *arguments]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout

    def stage(self, name: str, text: str) -> None:
        """Write a file and stage it, as a developer would before asking for a commit."""
        (self.path / name).write_text(text)
        self.git("add", name)

    def commits(self) -> int:
        """How many commits there are on the current branch."""
        return int(self.git("rev-list", "--count", "HEAD"))

    def log(self) -> str:
        """The log as the terminal shows it."""
        return self.git("log", "--format=%h %an: %s", "--stat")
