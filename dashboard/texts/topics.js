// Texts of topics, subscriptions and transports.

export const topics = {
  title: 'Topics', about: 'The names by which messages find their handlers, who receives them, and what carries them.',
  tabs: { topics: 'Topics', subscriptions: 'Subscriptions', transports: 'Transports' },
  none: 'No topic is known yet.', noneText: 'A topic appears with its first message or handler.', storage: 'the storage', noHandler: 'no handler', handler: 'handled here', groups: (count) => (count === 1 ? '1 group' : `${count} groups`), more: 'Counted over the newest messages and attempts; there are older ones.',
  columns: { topic: 'Topic', carried: 'Carried by', handled: 'Handlers', published: 'Published', done: 'Handled', failed: 'Failed', last: 'Last' },
  subscriptions: {
    none: 'This process receives from no transport.', noneText: 'Messages of the storage need no subscription.', columns: { topic: 'Topic', group: 'Group', transport: 'Transport', state: 'State', circuit: 'Circuit', running: 'Running', actions: 'Actions' },
    receiving: 'receiving', paused: 'paused', away: 'not connected', circuits: { closed: 'It receives as usual.', open: 'Its handler failed too often; it waits before it receives again.', 'half open': 'One message is let through to see whether its handler works again.' }, pause: 'Pause', resume: 'Resume', didPause: (topic) => `${topic} is no longer received.`, didResume: (topic) => `${topic} is received again.`, ask: 'Stop receiving?', askText: (topic, group) => `This process stops receiving ${topic} for the group ${group}. What is in hand is finished.`,
  },
  transports: {
    none: 'No transport is configured.', noneText: 'Messages are carried by the storage. Transports connect brokers such as RabbitMQ, NATS or Kafka.', connected: 'connected', away: 'not connected', unknown: 'no subscription', kind: 'Kind', circuit: 'Circuit', relay: 'Waiting for the relay', oldest: 'Oldest', topics: 'Topics', capabilities: 'What each can do by itself', capability: 'Capability', more: (count) => `and ${count} more`,
    names: { publish_delay: 'Delay when published', requeue_delay: 'Delay when put back', dead_letter: 'Keeps dead letters', ordering: 'Order', fan_out: 'A copy for each group', attempts: 'Who counts attempts', acknowledge: 'Acknowledges', durable: 'Survives a restart', payload_max: 'Largest content' },
    words: { any: 'any length', none: 'none', per_key: 'per key', total: 'total', counted: 'the transport', redelivered_flag: 'only first or not', single: 'one by one', cumulative: 'all before it' }, upTo: (length) => `up to ${length}`, yes: 'yes', no: 'no', noLimit: 'no limit',
  },
};
