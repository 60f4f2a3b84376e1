import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from 'fast-check';
import { containerName, containerSpec } from './container-spec.ts';

const order = {
  name: 'a',
  image: 'busybox',
  directory: { root: '/r', script: '/r/s', input: '/r/i', output: '/r/o', state: '/r/t' },
  environment: { A: 'b=c' },
  demand: { cpu: 250, memory: 2 ** 30, gpu: 0 },
  print: () => {},
};
const terms = { processes: 10, logBytes: 1_000, podman: false };

test('a container has the name of its attempt', () => {
  assert.equal(containerName('grayify-0b5e'), 'oscar-grayify-0b5e');
});

test('names are short, of letters that engines take, and differ where attempts do', () => {
  fc.assert(
    fc.property(fc.string({ minLength: 1, maxLength: 200 }), fc.string({ minLength: 1, maxLength: 200 }), (a, b) => {
      assert.match(containerName(a), /^oscar-[\w.-]{1,74}$/);
      assert.equal(containerName(a) === containerName(b), a === b);
    }),
  );
  const long = 'x'.repeat(100);
  assert.notEqual(containerName(`${long}1`), containerName(`${long}2`));
});

test('what is not limited is not mentioned', () => {
  const free = hostConfigOf({ ...order, demand: { cpu: 0, memory: 0, gpu: 0 } }, terms);
  for (const key of ['Memory', 'MemorySwap', 'CpuQuota', 'DeviceRequests', 'NetworkMode'])
    assert.ok(!(key in free), key);
});

test('memory has no swap beside it, processors are a share of time, devices are asked for', () => {
  const { Memory, MemorySwap, CpuQuota, CpuPeriod, DeviceRequests, NetworkMode } = hostConfigOf(
    { ...order, demand: { cpu: 250, memory: 2 ** 30, gpu: 2 } },
    { ...terms, network: 'none' },
  );
  assert.deepEqual([Memory, MemorySwap, CpuQuota, CpuPeriod], [2 ** 30, 2 ** 30, 25_000, 100_000]);
  assert.deepEqual(DeviceRequests, [{ Count: 2, Capabilities: [['gpu']] }]);
  assert.equal(NetworkMode, 'none');
});

test('Podman, which has no such log, gets its own', () => {
  assert.deepEqual(hostConfigOf(order, { ...terms, podman: true })['LogConfig'], {
    Type: 'k8s-file',
    Config: { 'max-size': '1000' },
  });
});

function hostConfigOf(...args: Parameters<typeof containerSpec>): Record<string, unknown> {
  return containerSpec(...args)['HostConfig'] as Record<string, unknown>;
}
