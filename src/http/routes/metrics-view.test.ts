import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { VisibleRow } from '../../jobs/index.ts';
import { breakdownTable } from './metrics-view.ts';

const usedBy = (invoker: string): VisibleRow => ({
  service: 'demo',
  invoker,
  trigger: 'job',
  jobs: 1,
  cpuSeconds: 0,
  gpuSeconds: 0,
  named: true,
});

const cells = [
  { name: 'a plain name stays as it is', user: '00000001-alice@egi.eu', cell: '00000001-alice@egi.eu' },
  { name: 'a comma is kept inside quotes', user: 'a,b', cell: '"a,b"' },
  { name: 'quotes are doubled', user: 'a"b', cell: '"a""b"' },
  { name: 'a line break is kept inside quotes', user: 'a\nb', cell: '"a\nb"' },
  { name: 'a formula becomes text', user: '=HYPERLINK("http://x")', cell: `"'=HYPERLINK(""http://x"")"` },
  { name: 'a name that begins like a formula becomes text', user: '@home', cell: "'@home" },
];
for (const { name, user, cell } of cells) {
  test(`in a table ${name}`, () => {
    const table = breakdownTable([usedBy(user)], 'user');
    assert.equal(table, `key,membership,executions_count,countries\n${cell},unknown,1,\n`);
  });
}
