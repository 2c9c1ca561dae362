"""The local backend: approvals in the gate's own database, decided by configured people on the command line.

It proves that the gate's backend is a choice: it knows the gate's database and `backend`, and nothing of the service.
Whoever can run its commands can read the gate's database and key file anyway; the approvers' secrets say who decided,
they do not protect against the operator of the machine. Design section 8.
"""
