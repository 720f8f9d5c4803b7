// Size limit of the files that a browser loads for the first page, compressed as the server sends them.

import { test } from 'node:test';
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { dirname, join, normalize } from 'node:path';
import { fileURLToPath } from 'node:url';
import { gzipSync } from 'node:zlib';

const FOLDER = fileURLToPath(new URL('..', import.meta.url));
const MOST = 200_000;

/** The files that a file imports, or in HTML links to. */
function named(file) {
  const text = readFileSync(join(FOLDER, file), 'utf8');
  const pattern = file.endsWith('.html')
    ? /(?:src|href)="(\.\/[^"]+)"/g
    : /(?:^|\n)\s*(?:import|export)\b[^;'"]*?from\s*'(\.[^']+)'/g;
  return [...text.matchAll(pattern)].map(([, to]) => normalize(join(dirname(file), to)));
}

function everything(starts) {
  const all = new Set();
  const left = [...starts];
  for (let file = left.pop(); file !== undefined; file = left.pop()) {
    if (all.has(file)) continue;
    all.add(file);
    if (/\.(html|js)$/.test(file)) left.push(...named(file));
  }
  return [...all];
}

test('the first page is under 200 KB', (t) => {
  const files = everything(['index.html', 'pages/overview.js', 'lib/chart.js']);
  assert.ok(
    files.includes('vendor/preact.js') && files.includes('styles/layout.css') && files.includes('vendor/uplot.js'),
    files.join(' '),
  );
  const sizes = files.map((file) => gzipSync(readFileSync(join(FOLDER, file))).length);
  const sum = sizes.reduce((total, size) => total + size, 0);
  t.diagnostic(`${files.length} files, ${sum} bytes`);
  assert.ok(sum < MOST, `${sum} bytes in ${files.length} files`);
});
