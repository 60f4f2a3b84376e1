import type { Figure, Measured } from './support/benchmark.ts';
import { type Call, connect } from './support/connection.ts';
import { repeated } from './support/interleaved.ts';
import { startManagerProcess } from './support/manager-process.ts';
import { creating, namesOf, updating } from './support/services.ts';
import { percentile } from './support/statistics.ts';
import { throughput } from './support/throughput.ts';
import { startUser } from './support/user.ts';

export const description = 'POST and PUT of services by a user with an access token';

export const figures = {
  create: { what: 'create a service, median', unit: 'ms', reach: ['≤', 50], goManager: '6.5 s' },
  createSlowest: { what: '… 99th percentile', unit: 'ms', reach: ['≤', 50] },
  update: { what: 'update a service, median', unit: 'ms' },
  updateSlowest: { what: '… 99th percentile', unit: 'ms' },
  creates: { what: 'create services, 16 connections', unit: '/s' },
} satisfies Record<string, Figure>;

/** One after the other; a tenth of them first, to warm up. */
const SERVICES = 500;

export async function run(): Promise<Measured<typeof figures>> {
  await using user = await startUser();
  const { settings, as } = user;
  await using manager = await startManagerProcess({ settings });
  const { url } = manager;

  const names = namesOf(SERVICES);
  const creates = await oneByOne(names.map(creating), url, as);
  const updates = await oneByOne(names.map(updating), url, as);
  let made = 0;
  const newService = { setupRequest: (request: object) => ({ ...request, ...creating(`at-once-${made++}`) }) };
  return {
    create: percentile(creates, 50),
    createSlowest: percentile(creates, 99),
    update: percentile(updates, 50),
    updateSlowest: percentile(updates, 99),
    creates: await repeated(() => throughput({ url, requests: [newService], as })),
  };
}

async function oneByOne(calls: readonly Call[], url: string, as: string): Promise<number[]> {
  using connection = connect(url, as);
  const times: number[] = [];
  for (const call of calls) times.push(await connection.call(call));
  return times.slice(calls.length / 10);
}
