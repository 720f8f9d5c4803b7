// Texts of the frame around every page, and of what pages share.

export const shell = {
  name: 'Punctual',
  pages: {
    overview: 'Overview', jobs: 'Jobs', calendar: 'Calendar', messages: 'Messages', queues: 'Queues',
    dead: 'Dead letters', topics: 'Topics', workers: 'Workers', batches: 'Batches', storage: 'Storage',
    audit: 'Audit', settings: 'Settings',
  },
  groups: { work: 'Work', system: 'System' },
  stream: {
    live: 'Live', paused: 'Paused', stale: 'Stale', away: 'Reconnecting',
    liveHint: 'Everything on this page is current. Click to hold it still (P).',
    pausedHint: 'This page stands still. Click to go on (P).',
    staleHint: 'Nothing was heard from the server for a while; what is shown may be old.',
    awayHint: 'The connection to the server is gone; trying again.',
  },
  banner: {
    away: 'The server cannot be reached. What is shown is from',
    stale: 'Nothing was heard from the server since',
  },
  theme: { label: 'Theme', system: 'Theme: like the system', light: 'Theme: light', dark: 'Theme: dark' },
  palette: { open: 'Search or jump', placeholder: 'Jump to a page, a job, a message id …', none: 'Nothing fits.', hint: 'Ctrl K' },
  keys: {
    title: 'Keys', close: 'Close',
    list: [
      ['Ctrl K or /', 'Search or jump'], ['g then o', 'Overview'], ['g then j', 'Jobs'], ['g then m', 'Messages'],
      ['g then q', 'Queues'], ['g then d', 'Dead letters'], ['g then w', 'Workers'], ['g then c', 'Calendar'],
      ['p', 'Hold the page still, or go on'], ['r', 'Load again'], ['t', 'Change the theme'], ['?', 'These keys'], ['Esc', 'Close'],
    ],
  },
  signIn: {
    title: 'Sign in', name: 'Name', password: 'Password', button: 'Sign in', out: 'Sign out',
    hint: 'An administrator makes accounts with',
    elsewhere: (name) => `Sign in with ${name}`, elsewhereHint: 'Who you are and what you may do is said there.',
  },
  menu: 'Menu', api: 'API',
  skip: 'Skip to the page',
  empty: 'Nothing here.',
  loading: 'Loading …',
  failed: 'This could not be loaded.',
  again: 'Try again',
  broken: 'This page has a defect. The rest goes on working.',
  cancel: 'Cancel', close: 'Close', more: 'Load more', first: 'Back to the first rows', goOn: 'Go on from here', copy: 'Copy', copied: 'Copied', cli: 'On the command line',
  newRows: (count) => `${count} new ${count === 1 ? 'row' : 'rows'}: show`,
  goneRows: (count) => `${count} ${count === 1 ? 'row is' : 'rows are'} gone: show`,
  role: { viewer: 'viewer', operator: 'operator', admin: 'admin' },
  denied: (role) => `This needs the role ${role}. You look with fewer rights.`,
  never: 'never', none: 'none',
};
