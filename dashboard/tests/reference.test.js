// Tests of the API reference: node --test dashboard/tests

import test from 'node:test';
import assert from 'node:assert/strict';
import {
  address,
  bounds,
  curl,
  fields,
  groups,
  nestedType,
  resolve,
  sample,
  search,
  typeOf,
} from '../reference/document.js';

const api = {
  tags: [{ name: 'jobs', description: 'Work.' }, { name: 'unused' }],
  paths: {
    '/api/v1/jobs/{name}/pause': {
      post: {
        tags: ['jobs'],
        operationId: 'pause_job',
        summary: 'Pauses a job.',
        parameters: [
          { name: 'name', in: 'path', required: true, schema: { type: 'string' } },
          { $ref: '#/components/parameters/Key' },
        ],
        requestBody: {
          required: true,
          content: { 'application/json': { schema: { $ref: '#/components/schemas/Pause' } } },
        },
        responses: {
          200: {
            description: 'It was done.',
            content: { 'application/json': { schema: { $ref: '#/components/schemas/Job' } } },
          },
          404: { $ref: '#/components/responses/NotFound' },
        },
      },
    },
    '/api/v1/jobs': {
      get: {
        tags: ['jobs'],
        operationId: 'list_jobs',
        summary: 'All jobs.',
        parameters: [{ name: 'limit', in: 'query', schema: { type: 'integer' } }],
        responses: {},
      },
    },
    '/api/v1/other': { get: { responses: {} } },
  },
  components: {
    parameters: { Key: { name: 'Idempotency-Key', in: 'header', schema: { type: 'string' } } },
    responses: { NotFound: { description: 'There is no such thing.' } },
    schemas: {
      Pause: {
        type: 'object',
        required: ['reason'],
        properties: { reason: { type: 'string' }, until: { type: ['string', 'null'], format: 'date-time' } },
      },
      Job: {
        allOf: [
          { $ref: '#/components/schemas/Pause' },
          {
            type: 'object',
            properties: { parent: { oneOf: [{ type: 'null' }, { $ref: '#/components/schemas/Job' }] } },
          },
        ],
      },
    },
  },
};

test('operations are grouped, with references resolved', () => {
  const found = groups(api);
  assert.deepEqual(
    found.map((group) => [group.name, group.operations.length]),
    [
      ['jobs', 2],
      ['other', 1],
    ],
  );
  const [pause] = found[0].operations;
  assert.equal(pause.parameters[1].name, 'Idempotency-Key');
  assert.deepEqual(
    pause.responses.map((one) => [one.status, one.about]),
    [
      ['200', 'It was done.'],
      ['404', 'There is no such thing.'],
    ],
  );
});

test('operations are found by all words', () => {
  assert.deepEqual(
    search(groups(api), 'post PAUSE').flatMap((group) => group.operations.map((one) => one.id)),
    ['pause_job'],
  );
  assert.deepEqual(search(groups(api), 'nothing like it'), []);
});

test('types are described in words', () => {
  assert.equal(typeOf({ $ref: '#/components/schemas/Job' }), 'Job');
  assert.equal(typeOf({ type: ['string', 'null'], format: 'date-time' }), 'date-time or null');
  assert.equal(typeOf({ type: 'array', items: { type: 'integer' } }), 'list of integer');
  assert.equal(typeOf({ oneOf: [{ type: 'null' }, { $ref: '#/x/Job' }] }), 'Job or null');
  assert.equal(typeOf({}), 'any');
  assert.equal(bounds({ minimum: 1, maximum: 1000 }), '1 to 1000');
  assert.equal(bounds({ type: 'string' }), null);
});

test('fields include those of all parts, and nested types can be opened', () => {
  assert.deepEqual(
    fields(api, { $ref: '#/components/schemas/Job' }).map((field) => field.name),
    ['reason', 'until', 'parent'],
  );
  const parent = fields(api, { $ref: '#/components/schemas/Job' })[2].schema;
  assert.deepEqual(nestedType(api, parent), { $ref: '#/components/schemas/Job' });
  assert.equal(nestedType(api, { type: 'string' }), null);
  assert.deepEqual(resolve(api, { $ref: '#/no/such/place' }), {});
});

test('an example has the required fields, and a recursive type ends', () => {
  assert.deepEqual(sample(api, { $ref: '#/components/schemas/Pause' }), { reason: '…' });
  assert.ok(JSON.stringify(sample(api, { type: 'array', items: { $ref: '#/components/schemas/Job' } })));
});

test('a request becomes a curl command', () => {
  const [pause, list] = groups(api)[0].operations;
  assert.equal(address(list, { limit: '5' }), '/api/v1/jobs?limit=5');
  assert.equal(address(pause, { name: 'a/b' }), '/api/v1/jobs/a%2Fb/pause');
  const line = curl('http://127.0.0.1:8080', pause, { values: { name: 'nightly' }, body: { reason: "it's late" } });
  assert.match(line, /-X POST/);
  assert.match(line, /'\{"reason":"it'\\''s late"\}'/);
  assert.doesNotMatch(curl('http://x', list), /-X|Content-Type/);
});
