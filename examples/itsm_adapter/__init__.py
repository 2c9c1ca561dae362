"""An automated resolver that lets a ticket system decide: it opens a ticket for each request and follows its state."""
