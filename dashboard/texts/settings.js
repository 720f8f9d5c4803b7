// Texts of the settings.

export const settings = {
  title: 'Settings', about: 'People, tokens, web hooks, and what this server was configured with.',
  tabs: { users: 'Users', tokens: 'Tokens', webhooks: 'Web hooks', rules: 'Redaction and retention', configuration: 'Configuration', account: 'Your account' },
  denied: (role) => `Only the role admin may see this; you are ${role}.`, deniedText: 'Ask an administrator, or use the command line on the server.',
  users: {
    add: 'Add a user', none: 'There is no user.', noneText: (mode) => `This server signs people in by “${mode}”, which needs no users here.`, columns: { name: 'Name', role: 'Role', created: 'Made', login: 'Last sign-in', actions: 'Actions' }, disabled: 'disabled', you: 'you',
    title: 'Add a user', name: 'Name', role: 'Role', password: 'Password', passwordHint: 'At least 12 characters. They can change it.', button: 'Add', added: (name) => `${name} can sign in now.`,
    edit: 'Edit', editTitle: (name) => `Edit ${name}`, newPassword: 'New password', newPasswordHint: 'Empty: it stays as it is.', isDisabled: 'May not sign in', save: 'Save', saved: (name) => `${name} is changed.`, remove: 'Delete', removeTitle: (name) => `Delete ${name}?`, removeText: 'One user is deleted, and their sessions end. What they did stays in the audit trail.', removed: (name) => `${name} is deleted.`,
    roles: { viewer: 'viewer: sees everything', operator: 'operator: acts on work', admin: 'admin: configures' },
  },
  tokens: {
    add: 'Make a token', none: 'There is no token.', noneText: 'Programs, workers and the command line sign in with tokens.', columns: { name: 'Name', scopes: 'May', queues: 'Queues', user: 'Of', created: 'Made', used: 'Last used', expires: 'Ends', actions: 'Actions' }, title: 'Make a token', name: 'Name', nameHint: 'What uses it.', scopes: 'It may', queues: 'Queues', queuesHint: 'The queues it may claim from, with commas between them; * is every queue. A worker sees the content of every message in them.', expires: 'Ends after', button: 'Make',
    scopeNames: { read: 'read everything', operate: 'act on work', admin: 'configure', work: 'claim work over HTTP', publish: 'publish messages' }, lengths: { '30d': '30 days', '90d': '90 days', '365d': 'a year', '': 'never' }, secretTitle: 'The token', secret: 'This is shown once and never again. Copy it now.', done: 'I have copied it', remove: 'Revoke', removeTitle: (name) => `Revoke ${name}?`, removeText: 'One token ends at once. Whatever uses it is refused from then on.', removed: (name) => `${name} is revoked.`, ended: 'ended',
  },
  webhooks: {
    add: 'Add a web hook', none: 'There is no web hook.', noneText: 'A web hook calls an address of yours when something happens, signed so that you can check it.', columns: { url: 'Address', events: 'Events', state: 'State', last: 'Last call', actions: 'Actions' }, title: 'Add a web hook', editTitle: 'Edit the web hook', url: 'Address', urlHint: 'An https address that answers with 2xx.', events: 'Events', eventsHint: 'With blanks between them, such as message.dead job.misfired; * means all.', job: 'Only of the job', topic: 'Only of the topic', queue: 'Only of the queue', enabled: 'It is called', button: 'Add', save: 'Save', added: 'The web hook is made.', saved: 'The web hook is changed.',
    secretTitle: 'The secret', secret: 'Check the header X-Punctual-Signature with it. It is shown once and never again.', test: 'Test', tested: 'A test call is on its way.', deliveries: 'Deliveries', edit: 'Edit', remove: 'Delete', removeTitle: 'Delete this web hook?', removeText: 'One web hook is deleted. Nothing is called there any more.', removed: 'The web hook is deleted.', on: 'on', off: 'off', failures: (count) => `${count} failures in a row`, never: 'never called', noDeliveries: 'It was not called yet.', status: (status) => `answered ${status}`,
    deliveryColumns: { at: 'When', ending: 'Ending', took: 'Took', attempt: 'Attempt', note: 'Note' },
  },
  rules: { redaction: 'Redaction', redactionText: 'Values under these paths are hidden in every content and header that is shown. Headers that carry secrets by custom are always hidden.', noRules: 'No rule is configured.', retention: 'Retention', retentionText: 'How long what has ended is kept.', noRetention: 'Nothing is configured; the usual lengths apply.', how: 'Both are set in the configuration file of the server.' },
  configuration: { title: 'Effective configuration', text: 'What this server runs with: file, environment and command line together. Secrets are hidden.' },
  account: { password: 'Change your password', old: 'Old password', new: 'New password', button: 'Change', done: 'Your password is changed.', none: (mode) => `This server signs people in by “${mode}”; there is no password to change here.`, who: 'You are', role: 'Role', auth: 'Signed in by' },
};
