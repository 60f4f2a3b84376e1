import assert from 'node:assert/strict';
import { test } from 'node:test';
import { isTemporaryTaint, type Taint, type Toleration, untoleratedTaints } from './node-info.ts';

const taint = (more: Partial<Taint> = {}): Taint => ({ key: 'lab', value: 'physics', effect: 'NoSchedule', ...more });

const cases: { name: string; taint?: Partial<Taint>; toleration?: Toleration; repels: boolean }[] = [
  { name: 'a taint repels', repels: true },
  { name: 'one that throws out repels too', taint: { effect: 'NoExecute' }, repels: true },
  { name: 'a wish does not', taint: { effect: 'PreferNoSchedule' }, repels: false },
  { name: 'the same key and value are tolerated', toleration: { key: 'lab', value: 'physics' }, repels: false },
  { name: 'another value is not', toleration: { key: 'lab', value: 'chemistry' }, repels: true },
  { name: 'another key is not', toleration: { key: 'room', value: 'physics' }, repels: true },
  { name: 'any value is, when only the key matters', toleration: { key: 'lab', operator: 'Exists' }, repels: false },
  {
    name: 'no value is an empty one',
    taint: { key: 'lab', value: '' },
    toleration: { key: 'lab', operator: 'Equal' },
    repels: false,
  },
  { name: 'everything is, by whoever tolerates all', toleration: { operator: 'Exists' }, repels: false },
  { name: 'no key without that is for nothing', toleration: { value: 'physics' }, repels: true },
  {
    name: 'a toleration of one effect is for that alone',
    taint: { effect: 'NoExecute' },
    toleration: { key: 'lab', operator: 'Exists', effect: 'NoSchedule' },
    repels: true,
  },
  {
    name: 'an unknown way of comparing tolerates nothing',
    toleration: { key: 'lab', operator: 'Gt', value: '1' },
    repels: true,
  },
];
for (const { name, taint: more, toleration, repels } of cases) {
  test(name, () => assert.equal(untoleratedTaints([taint(more)], toleration && [toleration]).length, repels ? 1 : 0));
}

test('taints: each taint needs its own toleration', () => {
  const two = [taint(), taint({ key: 'gpu', value: 'yes' })];
  assert.deepEqual(untoleratedTaints(two, [{ key: 'gpu', operator: 'Exists' }]), [taint()]);
});

test('taints: taints by Kubernetes are temporary, taints by an operator are permanent', () => {
  assert.equal(isTemporaryTaint(taint({ key: 'node.kubernetes.io/unschedulable' })), true);
  assert.equal(isTemporaryTaint(taint({ key: 'node.cloudprovider.kubernetes.io/uninitialized' })), true);
  assert.equal(isTemporaryTaint(taint({ key: 'node-role.kubernetes.io/control-plane' })), false);
  assert.equal(isTemporaryTaint(taint()), false);
});
