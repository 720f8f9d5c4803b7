// OpenAPI document reader. Pure functions: groups, types, examples and curl commands of a document.

import { reference as texts } from '../texts/reference.js';

const METHODS = ['get', 'post', 'put', 'patch', 'delete'];
/** Largest depth of an example; types may be recursive. */
const DEPTH = 5;
const SAMPLES = {
  'date-time': '2026-03-01T12:00:00Z',
  uuid: '0198a3a5-7d5e-7000-8000-00000000000a',
  uri: 'https://example.org/',
};

/** Resolves a `$ref`. */
export function resolve(document, thing) {
  let found = thing;
  for (let hops = 0; found?.$ref && hops < 10; hops += 1) {
    found = found.$ref
      .slice(2)
      .split('/')
      .reduce((place, key) => place?.[key.replaceAll('~1', '/').replaceAll('~0', '~')], document);
  }
  return found ?? {};
}

/** Name of a type, or null. */
export const nameOf = (schema) => (schema?.$ref ? schema.$ref.split('/').pop() : null);

function operation(document, method, path, source, shared) {
  const parameters = [...(shared ?? []), ...(source.parameters ?? [])].map((one) => resolve(document, one));
  const body = source.requestBody ? resolve(document, source.requestBody) : null;
  const responses = Object.entries(source.responses ?? {}).map(([status, one]) => {
    const response = resolve(document, one);
    const [type, content] = Object.entries(response.content ?? {})[0] ?? [null, null];
    return { status, about: response.description ?? '', type, schema: content?.schema ?? null };
  });
  const schema = body ? (Object.values(body.content ?? {})[0]?.schema ?? null) : null;
  return {
    id: source.operationId ?? `${method}-${path}`,
    method,
    path,
    summary: source.summary ?? '',
    description: source.description ?? '',
    parameters,
    body: schema,
    bodyRequired: body?.required === true,
    responses,
  };
}

/** Returns operations by tag, in the order of the document. */
export function groups(document) {
  const found = new Map(
    (document.tags ?? []).map((tag) => [tag.name, { name: tag.name, about: tag.description ?? '', operations: [] }]),
  );
  for (const [path, item] of Object.entries(document.paths ?? {})) {
    for (const method of METHODS.filter((one) => item[one])) {
      const [tag = 'other'] = item[method].tags ?? [];
      if (!found.has(tag)) found.set(tag, { name: tag, about: '', operations: [] });
      found.get(tag).operations.push(operation(document, method, path, item[method], item.parameters));
    }
  }
  return [...found.values()].filter((group) => group.operations.length > 0);
}

/** Returns the groups with the operations that contain every word. */
export function search(all, text) {
  const words = text.toLowerCase().split(/\s+/).filter(Boolean);
  const fits = (one) => {
    const searchable = `${one.method} ${one.path} ${one.summary} ${one.description}`.toLowerCase();
    return words.every((word) => searchable.includes(word));
  };
  return all
    .map((group) => ({ ...group, operations: group.operations.filter(fits) }))
    .filter((group) => group.operations.length > 0);
}

const typesOf = (schema) => (Array.isArray(schema.type) ? schema.type : schema.type ? [schema.type] : []);
const choices = (schema) => schema.oneOf ?? schema.anyOf ?? null;
const isNull = (schema) => typesOf(schema).length === 1 && schema.type === 'null';

/** Alternatives of a type, without null. */
export const alternatives = (schema) => choices(schema)?.filter((one) => !isNull(one)) ?? [];

/** Describes a type in words. */
export function typeOf(schema) {
  if (!schema || schema === true || Object.keys(schema).length === 0) return texts.anything;
  if (schema.$ref) return nameOf(schema);
  const options = choices(schema);
  if (options) {
    const words = alternatives(schema).map(typeOf);
    return [...new Set(words), ...(options.some(isNull) ? ['null'] : [])].join(' or ');
  }
  if (schema.allOf)
    return (
      schema.allOf
        .map((one) => nameOf(one))
        .filter(Boolean)
        .join(' and ') || 'object'
    );
  const words = typesOf(schema).map((type) => {
    if (type === 'array') return texts.listOf(typeOf(schema.items));
    if (type === 'object' && schema.additionalProperties && typeof schema.additionalProperties === 'object')
      return texts.mapOf(typeOf(schema.additionalProperties));
    return type === 'string' && schema.format ? schema.format : type;
  });
  return words.join(' or ') || texts.anything;
}

/** Returns the fields of an object, including those of `allOf`: `[{ name, schema, required }]`. */
export function fields(document, schema) {
  const found = resolve(document, schema);
  const parts = (found.allOf ?? []).flatMap((one) => fields(document, one));
  const own = Object.entries(found.properties ?? {}).map(([name, one]) => ({
    name,
    schema: one,
    required: (found.required ?? []).includes(name),
  }));
  return [...parts, ...own];
}

/** Returns the nested type whose fields are shown below a field, or null. */
export function nestedType(document, schema) {
  if (!schema || typeof schema !== 'object') return null;
  const found = resolve(document, schema);
  if (found.properties || found.allOf) return schema;
  if (found.items) return nestedType(document, found.items);
  if (found.additionalProperties && typeof found.additionalProperties === 'object')
    return nestedType(document, found.additionalProperties);
  const options = alternatives(found);
  return options.length === 1 ? nestedType(document, options[0]) : null;
}

/** Describes the bounds of a value; null without bounds. */
export function bounds(schema) {
  const low = schema.minimum ?? schema.minLength ?? schema.minItems;
  const high = schema.maximum ?? schema.maxLength ?? schema.maxItems;
  return low === undefined && high === undefined ? null : texts.bounds(low, high);
}

/** Returns an example value with the required fields, or with the first fields when none is required. */
export function sample(document, schema, depth = 0) {
  const found = resolve(document, schema);
  if (found.example !== undefined) return found.example;
  if (found.examples?.length > 0) return found.examples[0];
  if (found.default !== undefined && found.default !== null) return found.default;
  if (found.enum) return found.enum[0];
  if (found.const !== undefined) return found.const;
  const options = alternatives(found);
  if (options.length > 0) return sample(document, options[0], depth);
  const type = typesOf(found).find((one) => one !== 'null') ?? (found.properties || found.allOf ? 'object' : null);
  if (type === 'array') return depth >= DEPTH ? [] : [sample(document, found.items ?? {}, depth + 1)];
  if (type === 'object') return sampleObject(document, found, depth);
  if (type === 'integer' || type === 'number') return found.minimum ?? 1;
  if (type === 'boolean') return false;
  return type === 'string' ? (SAMPLES[found.format] ?? '…') : null;
}

function sampleObject(document, found, depth) {
  if (depth >= DEPTH) return {};
  const all = fields(document, found);
  const needed = all.filter((field) => field.required);
  return Object.fromEntries(
    (needed.length > 0 ? needed : all.slice(0, 3)).map((field) => [
      field.name,
      sample(document, field.schema, depth + 1),
    ]),
  );
}

const quoted = (text) => `'${text.replaceAll("'", "'\\''")}'`;

/** Fills in path and query parameters; a path parameter without value stays a placeholder. */
export function address(one, values = {}) {
  const path = one.path.replace(/\{([^}]+)\}/g, (whole, name) =>
    values[name] ? encodeURIComponent(values[name]) : whole,
  );
  const query = one.parameters.filter((parameter) => parameter.in === 'query' && values[parameter.name]);
  const asked = new URLSearchParams(query.map((parameter) => [parameter.name, values[parameter.name]]));
  return query.length === 0 ? path : `${path}?${asked}`;
}

/** Returns the request as a curl command. */
export function curl(base, one, { values = {}, body } = {}) {
  const method = one.method === 'get' ? '' : `-X ${one.method.toUpperCase()} `;
  const parts = [`curl ${method}${quoted(base + address(one, values))}`, '-H "Authorization: Bearer $PUNCTUAL_TOKEN"'];
  if (body !== undefined) parts.push("-H 'Content-Type: application/json'", `-d ${quoted(JSON.stringify(body))}`);
  return parts.join(' \\\n  ');
}
