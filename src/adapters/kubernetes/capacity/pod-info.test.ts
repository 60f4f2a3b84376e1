import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from 'fast-check';
import { type Container, type PodSpec, podRequest } from './pod-info.ts';

const asks = (requests: Record<string, string>): Container => ({ resources: { requests } });
const sidecar = (requests: Record<string, string>): Container => ({ ...asks(requests), restartPolicy: 'Always' });
const cpu = (millicores: number) => ({ cpu: `${millicores}m` });

const cases: { name: string; spec: PodSpec; cpu?: number; memory?: number; gpu?: number }[] = [
  { name: 'a pod without containers asks for nothing', spec: {} },
  { name: 'a container that asks for nothing counts nothing', spec: { containers: [{}, { resources: {} }] } },
  {
    name: 'the containers are added up',
    spec: { containers: [asks({ cpu: '1', memory: '1Gi' }), asks({ cpu: '250m', 'nvidia.com/gpu': '2' })] },
    cpu: 1_250,
    memory: 1024 ** 3,
    gpu: 2,
  },
  {
    name: 'of init containers only the largest counts, since they run one after the other',
    spec: { containers: [asks(cpu(100))], initContainers: [asks(cpu(300)), asks(cpu(200))] },
    cpu: 300,
  },
  {
    name: 'an init container smaller than the containers costs nothing',
    spec: { containers: [asks(cpu(500))], initContainers: [asks(cpu(300))] },
    cpu: 500,
  },
  {
    name: 'a sidecar goes on beside the containers',
    spec: { containers: [asks(cpu(500))], initContainers: [asks(cpu(300)), sidecar(cpu(50))] },
    cpu: 550,
  },
  {
    name: 'a sidecar that is up already counts beside an init container',
    spec: { containers: [asks(cpu(100))], initContainers: [sidecar(cpu(50)), asks(cpu(300))] },
    cpu: 350,
  },
  {
    name: 'each resource has its own largest moment',
    spec: {
      containers: [asks({ cpu: '1', memory: '10' })],
      initContainers: [asks({ cpu: '100m', memory: '20' }), sidecar({ cpu: '10m', memory: '1' })],
    },
    cpu: 1_010,
    memory: 20,
  },
  {
    name: 'what the runtime takes is added',
    spec: { containers: [asks(cpu(100))], overhead: { cpu: '250m', memory: '64' } },
    cpu: 350,
    memory: 64,
  },
  {
    name: 'what is said of the whole pod counts in place of its containers, resource by resource',
    spec: { containers: [asks({ cpu: '4', memory: '5' })], resources: { requests: { cpu: '1' } } },
    cpu: 1_000,
    memory: 5,
  },
  { name: 'what is no quantity is nothing', spec: { containers: [asks({ cpu: 'much' }), asks(cpu(1))] }, cpu: 1 },
];
for (const { name, spec, cpu: millicores = 0, memory = 0, gpu = 0 } of cases) {
  test(name, () => assert.deepEqual(podRequest(spec), { cpu: millicores, memory, gpu }));
}

test('pod info: the request of a pod is the largest that it needs at any moment of its life', () => {
  const container = fc.record({ millicores: fc.nat(1_000), sidecar: fc.boolean() });
  fc.assert(
    fc.property(fc.array(container), fc.array(fc.nat(1_000)), (init, main) => {
      const spec = {
        containers: main.map((each) => asks(cpu(each))),
        initContainers: init.map((each) => (each.sidecar ? sidecar : asks)(cpu(each.millicores))),
      };
      const running = (until: number) =>
        init.slice(0, until).reduce((sum, each) => sum + (each.sidecar ? each.millicores : 0), 0);
      const moments = [
        ...init.map((each, index) => running(index) + each.millicores),
        main.reduce((sum, each) => sum + each, running(init.length)),
      ];
      assert.equal(podRequest(spec).cpu, Math.max(...moments));
    }),
  );
});
