// Texts of the API's reference.

export const reference = {
  title: 'API',
  about: 'Everything the dashboard does, and every command that reads or changes jobs, messages, queues or users on a server, is also an operation of this API: JSON in, JSON out.',
  find: 'Find an operation', none: (words) => `Nothing fits “${words}”.`,
  dashboard: 'Dashboard', document: 'openapi.json', version: (version) => `Version ${version}`,
  failed: 'The description of the API could not be loaded.',
  signIn: {
    title: 'Who calls',
    text: 'A program shows a token as “Authorization: Bearer …”; make one under Settings. A browser is known by its session.',
    open: 'This server asks nobody who they are, because it listens on this machine only.',
  },
  problems: {
    title: 'When it says no',
    text: 'Every refusal is a document of the type application/problem+json with a title, a status, a sentence that names the value and the way out, and the fields that are wrong.',
  },
  pages: {
    title: 'Lists',
    text: 'A list answers “items” and “next”; give “next” as “after” for the page behind it. No page is skipped and none is shown twice.',
  },
  repeat: {
    title: 'Repeating a change',
    text: 'Send an Idempotency-Key with a change, and send the same one again when the answer got lost: it is done once.',
  },
  parameters: 'Parameters', body: 'Body', bodyOptional: 'Body, may be left out', answers: 'Answers', example: 'Example', line: 'On the command line',
  required: 'required', where: { path: 'path', query: 'query', header: 'header', cookie: 'cookie' },
  try: 'Try it', send: 'Send', sending: 'Sending …', tryHint: 'Sent with your session to this server.', took: (length) => `${length} ms`,
  noFields: 'It has no fields.', deeper: 'Fields', oneOf: 'One of', values: 'One of', listOf: (type) => `list of ${type}`, mapOf: (type) => `${type} by name`, orNull: 'or null', anything: 'anything',
  bounds: (low, high) => (low === undefined ? `at most ${high}` : high === undefined ? `at least ${low}` : `${low} to ${high}`),
  away: 'The server does not answer.',
};
