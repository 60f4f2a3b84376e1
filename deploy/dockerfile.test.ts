import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import { SETTINGS } from './image/manager-image.ts';

const read = (path: string) => readFileSync(new URL(path, import.meta.url), 'utf8');
const dockerfile = read('Dockerfile');
const said = (instruction: string) => new RegExp(`^${instruction} (.*)$`, 'm').exec(dockerfile)?.[1] ?? '';

test('Docker makes the image run as the script does', () => {
  assert.deepEqual(
    {
      User: said('USER'),
      WorkingDir: dockerfile.slice(dockerfile.indexOf('FROM scratch')).match(/^WORKDIR (.*)$/m)?.[1],
      Entrypoint: JSON.parse(said('ENTRYPOINT')),
      Cmd: JSON.parse(said('CMD')),
      Env: said('ENV').split(' '),
      ExposedPorts: { [said('EXPOSE')]: {} },
    },
    SETTINGS,
  );
});

test('Docker begins with the Node that the packages pin', () => {
  const { dependencies } = JSON.parse(read('../package.json')) as { dependencies: { node: string } };
  assert.match(said('FROM'), new RegExp(`^node:${dependencies.node.replaceAll('.', '\\.')}-`));
});
