import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from 'fast-check';
import { buildContainerSpec, containerName } from './container-spec.ts';

const order = {
  name: 'a',
  image: 'busybox',
  directory: { root: '/r', script: '/r/s', input: '/r/i', output: '/r/o', state: '/r/t' },
  environment: { A: 'b=c' },
  demand: { cpu: 250, memory: 2 ** 30, gpu: 0 },
  print: () => {},
};
const options = { processes: 10, logBytes: 1_000, podman: false };

test('container name: it contains the name of the attempt', () => {
  assert.equal(containerName('grayify-0b5e'), 'oscar-grayify-0b5e');
});

test('container name: names are short, valid for engines, and unique for each attempt', () => {
  fc.assert(
    fc.property(fc.string({ minLength: 1, maxLength: 200 }), fc.string({ minLength: 1, maxLength: 200 }), (a, b) => {
      assert.match(containerName(a), /^oscar-[\w.-]{1,74}$/);
      assert.equal(containerName(a) === containerName(b), a === b);
    }),
  );
  const long = 'x'.repeat(100);
  assert.notEqual(containerName(`${long}1`), containerName(`${long}2`));
});

test('container spec: resources without a limit are omitted', () => {
  const unlimited = buildHostConfig({ ...order, demand: { cpu: 0, memory: 0, gpu: 0 } }, options);
  for (const key of ['Memory', 'MemorySwap', 'CpuQuota', 'DeviceRequests', 'NetworkMode'])
    assert.ok(!(key in unlimited), key);
});

test('container spec: memory is limited without swap, CPU as a quota, GPUs as device requests', () => {
  const { Memory, MemorySwap, CpuQuota, CpuPeriod, DeviceRequests, NetworkMode } = buildHostConfig(
    { ...order, demand: { cpu: 250, memory: 2 ** 30, gpu: 2 } },
    { ...options, network: 'none' },
  );
  assert.deepEqual([Memory, MemorySwap, CpuQuota, CpuPeriod], [2 ** 30, 2 ** 30, 25_000, 100_000]);
  assert.deepEqual(DeviceRequests, [{ Count: 2, Capabilities: [['gpu']] }]);
  assert.equal(NetworkMode, 'none');
});

test('container spec: Podman gets its own log driver', () => {
  assert.deepEqual(buildHostConfig(order, { ...options, podman: true })['LogConfig'], {
    Type: 'k8s-file',
    Config: { 'max-size': '1000' },
  });
});

function buildHostConfig(...args: Parameters<typeof buildContainerSpec>): Record<string, unknown> {
  return buildContainerSpec(...args)['HostConfig'] as Record<string, unknown>;
}
