"""The rules of the desk's tests: commits need one maintainer, transfers two, letters hide their body, grants a form."""

POLICY = """
version: 1
clients:
  - client: gate
    may: "true"
  - client: other-gate
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
  - id: payment-is-wide
    when: resource.id == 'pay'
    request: pay
    reason: payment_needs_review
  - id: grant-needs-a-form
    when: resource.id == 'grant_role'
    request: grant
    reason: role_needs_a_reason
catalogs:
  applications:
    items:
      - {value: app-1, label: Ledger, description: Books and accounts}
      - {value: app-2, label: Payroll, when: 'subject.id == "nobody"'}
  roles:
    scope: [application]
    items:
      - {value: reader, label: Reader, scope: {application: [app-1]}}
      - {value: clerk, label: Clerk, scope: {application: [app-2]}}
templates:
  grant:
    title: Grant a role
    explanation: Somebody gets a role.
    denial_seconds: 300
    form: true
    steps:
      - id: review
        title: Maintainers
        groups: [maintainers]
    catalogs:
      /requested_access/application: {catalog: applications}
      /requested_access/role: {catalog: roles, scope: {application: /requested_access/application}}
    request_schema:
      type: object
      properties:
        context:
          type: object
          required: [ticket]
          properties:
            ticket:
              type: string
              maxLength: 20
              pattern: '^OPS-[0-9]+$'
              title: <b>Ticket</b>
              description: OPS-<i>n</i>
            server: {type: string}
        requested_access:
          type: object
          required: [business_justification, application, role, urgency]
          properties:
            business_justification: {type: string, minLength: 5}
            application: {type: string}
            role: {type: string}
            urgency: {enum: [low, high]}
            hours: {type: integer, minimum: 1, maximum: 8}
            share: {type: number}
            on_call: {type: boolean}
            first_day: {type: string, format: date}
            requested_until: {type: string}
            systems: {type: array, items: {type: string}, maxItems: 2}
  pay:
    title: Pay a bill
    explanation: Money leaves the account.
    mask: [pin]
    steps:
      - id: review
        title: Maintainers
        groups: [maintainers]
    reasons:
      approve: {pattern: 'CHG-[0-9]+', hint: 'Name the change, such as CHG-12.'}
    scope:
      may_vary: [/context/arguments_hash, /resource/properties/region]
      within: 'call.?arguments.?amount.orValue(1.0e9) <= 500'
      words: Any bill up to 500.
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
