// TOML: a job definition as a table of the configuration file.

const isTable = (value) => value !== null && typeof value === 'object' && !Array.isArray(value);
const bare = (key) => (/^[\w-]+$/.test(key) ? key : JSON.stringify(key));

function literal(value) {
  if (Array.isArray(value)) return `[${value.map(literal).join(', ')}]`;
  if (isTable(value))
    return `{ ${Object.entries(value)
      .filter(([, one]) => one !== null)
      .map(([key, one]) => `${bare(key)} = ${literal(one)}`)
      .join(', ')} }`;
  return JSON.stringify(value);
}

/** Returns `[jobs.NAME]` with its keys. */
export function toml({ name, ...spec }) {
  const lines = Object.entries(spec)
    .filter(([, value]) => value !== null)
    .map(([key, value]) => `${bare(key)} = ${literal(value)}`);
  return [`[jobs.${bare(name)}]`, ...lines].join('\n');
}
