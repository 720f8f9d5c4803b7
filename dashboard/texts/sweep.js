// Texts of actions for many at once.

export const sweep = {
  counting: 'Counting …',
  nothing: 'There is nothing this could be done to.',
  atLeast: 'at least ',
  progress: 'How far it is',
  so: (done, total, more) => `${done} of ${more ? 'at least ' : ''}${total}`,
  stop: 'Stop here',
  applied: (count, verb) => `${count} ${verb}.`,
  requested: (count) => `${count} ${count === '1' ? 'handler was' : 'handlers were'} asked to stop.`,
  refused: (count) => `${count} ${count === '1' ? 'was' : 'were'} refused: by then the state did not allow it.`,
  unreached: 'There may be more that were not reached; narrow the filter and do it again.',
};
