"""The rules of the desk's tests: commits need one maintainer, transfers need two people, letters hide their body."""

POLICY = """
version: 1
clients:
  - client: gate
    may: "true"
entities: {}
rules:
  - id: commit-needs-review
    when: resource.id == 'git_commit'
    request: commit
    reason: commit_needs_review
  - id: transfer-needs-two
    when: resource.id == 'wire_transfer'
    request: transfer
    reason: amount_above_limit
  - id: mail-needs-review
    when: resource.id == 'send_mail'
    request: mail
    reason: mail_leaves_the_house
templates:
  mail:
    title: Send a letter
    explanation: A letter leaves the house.
    risk: low
    reveal: [/to, /subject]
    steps:
      - id: review
        title: Maintainers
        groups: [maintainers]
  commit:
    title: Commit to a repository
    explanation: A commit changes the shared history.
    caution: It commits what is staged at the moment it runs.
    effect: "'Commit \\"' + call.arguments.message + '\\" in ' + call.arguments.repo_path"
    risk: medium
    steps:
      - id: review
        title: Maintainers
        groups: [maintainers]
  transfer:
    title: Transfer money
    explanation: Money leaves the account and cannot be called back.
    effect: "'Transfer ' + string(call.arguments.amount) + ' to ' + call.arguments.to"
    risk: high
    mask: [token]
    steps:
      - id: review
        title: Treasurers
        groups: [treasurers, maintainers]
        quorum: 2
"""
