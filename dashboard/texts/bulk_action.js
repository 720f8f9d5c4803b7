// Texts of bulk actions.

export const bulkAction = {
  counting: 'Counting …',
  nothing: 'No matching messages.',
  atLeast: 'at least ',
  progress: 'Progress',
  position: (done, total, more) => `${done} of ${more ? 'at least ' : ''}${total}`,
  stop: 'Stop',
  applied: (count, verb) => `${count} ${verb}.`,
  requested: (count) => `${count} ${count === '1' ? 'handler was' : 'handlers were'} asked to stop.`,
  refused: (count) => `${count} ${count === '1' ? 'was' : 'were'} refused: the state no longer allowed it.`,
  unreached: 'Some messages may be left; narrow the filter and repeat the action.',
};
