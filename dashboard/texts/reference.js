// Texts of the API reference.

export const reference = {
  title: 'API',
  about: 'The API of the dashboard and of the CLI commands that use a server. Requests and responses are JSON.',
  find: 'Find an operation',
  none: (words) => `No operation matches “${words}”.`,
  dashboard: 'Dashboard',
  document: 'openapi.json',
  version: (version) => `Version ${version}`,
  failed: 'The description of the API could not be loaded.',
  signIn: {
    title: 'Authentication',
    text: 'Programs send a token as “Authorization: Bearer …”; create one under Settings. A browser uses its session.',
    open: 'Authentication is off because this server listens on this machine only.',
  },
  problems: {
    title: 'Errors',
    text:
      'Every error is a document of the type application/problem+json with a title, a status, a detail that names ' +
      'the value and the remedy, and the invalid fields.',
  },
  pages: {
    title: 'Lists',
    text:
      'A list returns “items” and “next”; send “next” as “after” to get the next page. No row is skipped or ' +
      'repeated.',
  },
  repeat: {
    title: 'Idempotency',
    text: 'Send an Idempotency-Key with a change. A retry with the same key is applied once.',
  },
  parameters: 'Parameters',
  body: 'Body',
  bodyOptional: 'Body (optional)',
  responses: 'Responses',
  example: 'Example',
  line: 'curl',
  required: 'required',
  where: { path: 'path', query: 'query', header: 'header', cookie: 'cookie' },
  try: 'Try it',
  send: 'Send',
  sending: 'Sending …',
  tryHint: 'Sent with your session to this server.',
  took: (duration) => `${duration} ms`,
  noFields: 'No fields.',
  deeper: 'Fields',
  oneOf: 'One of',
  values: 'One of',
  listOf: (type) => `list of ${type}`,
  mapOf: (type) => `${type} by name`,
  orNull: 'or null',
  anything: 'any',
  bounds: (low, high) =>
    low === undefined ? `at most ${high}` : high === undefined ? `at least ${low}` : `${low} to ${high}`,
  disconnected: 'The server does not respond.',
};
