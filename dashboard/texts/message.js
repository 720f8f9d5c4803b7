// Texts of the page of a message.

export const message = {
  crumb: 'Messages',
  why: {
    title: 'Why it is where it is',
    words: {
      running: 'Running', waiting_until: 'Not due yet', ready: 'Ready', no_worker: 'No worker', no_handler: 'No handler', queue_paused: 'Queue paused', job_paused: 'Job paused', limit_reached: 'Limit reached', waits_for_key: 'Waits for its key', waits_for_batch: 'Waits for a batch', rate_limited: 'Rate limited', circuit_open: 'Circuit open', retrying: 'Will be tried again', stale: 'Its process is gone', done: 'Done', dead: 'Given up', cancelled: 'Cancelled',
    },
    due: 'Due', queue: 'Look at the queue', workers: 'Look at the workers', job: 'Look at the job', batch: 'Look at the batch', key: 'Others about this key', topics: 'Look at the subscriptions', group: 'Dead letters like this',
  },
  states: { title: 'The path of this message', names: { scheduled: 'Scheduled', ready: 'Ready', running: 'Running', retrying: 'Retrying', done: 'Done', dead: 'Dead', cancelled: 'Cancelled' }, now: (name) => `It is ${name} now.` },
  attempts: {
    title: 'Attempts', none: 'It has not been attempted yet.', of: (attempt, most) => (most ? `${attempt} of ${most}` : `${attempt}`), attempt: (attempt) => `Attempt ${attempt}`, waited: 'waited', ran: 'ran', lease: 'lease', bars: (waited, took) => `waited ${waited}, ran ${took}`,
    running: 'running', leaseOf: 'lease of', until: 'until', by: 'by', same: (attempt) => `The same as in attempt ${attempt}.`, another: (attempt) => `Another failure than in attempt ${attempt}.`, difference: (attempt) => `What differs from attempt ${attempt} is marked.`, log: 'Log', noNote: 'Nothing was said.', started: 'Started', legend: { wait: 'waiting', run: 'running' }, next: 'next attempt', more: 'Only the newest 100 attempts are shown.',
  },
  body: {
    title: 'Content', none: 'It has no content.', raw: 'As text', tree: 'As tree', hidden: 'Some values are hidden by the redaction rules.', hiddenMark: 'hidden', truncated: 'Only the beginning is shown.', base64: 'These bytes are no text; they are shown as base64.', items: (count) => (count === 1 ? '1 item' : `${count} items`), keys: (count) => (count === 1 ? '1 key' : `${count} keys`), more: (count) => `${count} more`, open: 'Open all', close: 'Close all', checkpoint: 'Checkpoint',
  },
  facts: {
    title: 'Facts', id: 'Id', state: 'State', queue: 'Queue', key: 'Key', dedupe: 'Only once', priority: 'Priority', source: 'Made by', due: 'Due', made: 'Made', ended: 'Ended', attempt: 'Attempts', crashes: 'Processes lost', snoozes: 'Snoozes', size: 'Size', transport: 'Transport', dead: 'Given up because', nominal: 'Planned for', timeout: 'Timeout', handlerOptions: 'Its own options',
    sources: { published: 'an application', scheduled: 'a schedule', manual: 'somebody, by hand', redriven: 'redriving', deferred: 'an application, for later' },
  },
  headers: { title: 'Headers', none: 'It has no headers.', name: 'Name', value: 'Value' },
  progress: { title: 'Progress', said: 'said' },
  related: { title: 'Related', job: 'Job', parent: 'Parent', children: 'Children', batch: 'Batch', waitsFor: 'Waits for batch', correlation: 'Story', causation: 'Attempt that made it', none: 'It stands alone.', all: 'all of this story' },
  act: {
    redrive: 'Redrive', redriveTitle: 'Send this message again?', redriveText: 'It becomes due at once, and its attempts start anew.', redriven: 'It is sent again.',
    cancel: 'Cancel', cancelTitle: 'Cancel this message?', cancelText: 'A pending message ends at once; a running handler is asked to stop.', cancelled: 'It is cancelled.', requested: 'Its handler was asked to stop.',
    reschedule: 'Reschedule', rescheduleTitle: 'Make it due at another time', rescheduled: 'It is due at another time now.',
    reassign: 'Reassign', reassignTitle: 'Change queue or priority', reassignText: 'When it is due stays; where it waits and how urgent it is changes.', reassigned: 'Its queue and priority are changed.',
    clone: 'Edit and send', delete: 'Delete', deleteTitle: 'Delete this message?', deleteText: 'One message is deleted with its content. It cannot be undone.', deleted: 'It is deleted.',
    refused: { clone: 'Only the server sends messages of this topic; run its job instead.', redrive: 'Only a finished message can be sent again.', cancel: 'It has ended already.', reschedule: 'Only a pending message can be made due at another time.', reassign: 'Only a pending message can wait elsewhere.', delete: 'A running message cannot be deleted.' },
    reason: 'Reason', reasonHint: 'For the audit trail.', copy: 'Copy as', copies: { show: 'Command that shows it', why: 'Command that says why', publish: 'Command that sends it again', curl: 'Call of the API', json: 'JSON', id: 'Id' },
  },
  planned: {
    pause: 'Pause', pauseTitle: 'Pause this one-time job?', pauseText: 'It does not run until somebody resumes it, also over restarts.', pauseDone: 'It is paused.',
    resume: 'Resume', resumeTitle: 'Resume this one-time job?', resumeText: 'It runs at its own time, or at once if that has passed.', resumeDone: 'It is resumed.',
    trigger: 'Run now', triggerTitle: 'Run this one-time job now?', triggerText: 'It becomes due at once and runs once, as planned, only earlier.', triggerDone: 'It is due now.',
    reason: 'Reason', reasonHint: 'For the next person who looks.', noKey: 'It was planned without a key; reschedule or cancel it instead.',
  },
  gone: 'There is no such message.', goneText: 'It may have been pruned or deleted.',
};
