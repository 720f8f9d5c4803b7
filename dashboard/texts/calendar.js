// Texts of the calendar.

export const calendar = {
  title: 'Calendar', about: 'Runs of all jobs, past and to come, with clock changes and minutes where many start at once.',
  views: { day: 'Day', week: 'Week' }, view: 'View', today: 'Today', before: 'Earlier', after: 'Later', date: 'Day', zone: 'Zone', job: 'Only jobs that contain', mine: (zone) => `${zone} (yours)`,
  none: 'Nothing runs in this range.', noneText: 'Choose another day, or make a job.',
  more: (count) => `Only ${count} runs are shown; the rest of the range is not known here.`, noneShown: 'No run among those that are shown.',
  piles: { title: 'Pile-ups', none: 'No minute starts five jobs or more.', noneShown: 'No pile-up among the runs that are shown.', about: 'Spread them by a jitter, or by H in their cron text.', count: (count) => `${count} starts`, upTo: (count) => `up to ${count} starts`, range: (first, last, minutes) => `${first} to ${last}, ${minutes} minutes` },
  changes: { title: 'Clock changes', none: 'No clock changes in this range.' },
  lane: (job, past, bad, future) => `${job}: ${past} past, ${bad} of them failed, ${future} to come`, lanes: 'Runs of each job over the day', runs: (count) => `${count} ${count === 1 ? 'run' : 'runs'}`,
  cell: (day, hour, count, bad) => `${day}, ${hour}:00: ${count} ${count === 1 ? 'run' : 'runs'}${bad ? `, ${bad} failed` : ''}`, weekLabel: 'Runs by day and hour', hour: 'Hour', now: 'now',
  legend: { good: 'succeeded', bad: 'failed', mute: 'skipped', idle: 'to come', now: 'now', pile: 'pile-up', change: 'clock change' },
  lanesMore: (count) => `${count} more jobs; filter by name to see them.`,
};
