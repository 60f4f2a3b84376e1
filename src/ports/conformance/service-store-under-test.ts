import assert from 'node:assert/strict';
import type { TestContext } from 'node:test';
import type { Service } from '../../model/service/index.ts';
import type { Reservation, ServiceRecord, ServiceStore } from '../service-store.ts';

export interface ServiceStoreUnderTest {
  /** Empty. */
  store: ServiceStore;
  /** Advances the store's clock. Without it, the tests that need it are skipped. */
  advance?: (milliseconds: number) => void | Promise<void>;
  close(): void | Promise<void>;
}

export type StartStore = (t: TestContext) => Promise<ServiceStoreUnderTest>;

export async function reserved(store: ServiceStore, name: string, uid: string): Promise<Reservation> {
  const reservation = await store.reserve(name, uid);
  assert.ok(reservation !== 'taken', `${name} should have been free`);
  return reservation;
}

export async function created(store: ServiceStore, service: Service): Promise<ServiceRecord> {
  return store.create(await reserved(store, service.definition.name, service.uid), service);
}
