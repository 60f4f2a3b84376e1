import type { Figure, Measured } from './support/benchmark.ts';
import { repeated } from './support/interleaved.ts';
import { startManagerProcess } from './support/manager-process.ts';
import { listing, withServices } from './support/services.ts';
import { throughput } from './support/throughput.ts';
import { startUser } from './support/user.ts';

export const description = 'GET of all services by a user who sees 200 of them, 16 connections';

export const figures = {
  rate: { what: 'list of 200 services, OIDC', unit: '/s', reach: ['≥', 300] },
  memory: { what: '… memory right after', unit: 'MB' },
} satisfies Record<string, Figure>;

export async function run(): Promise<Measured<typeof figures>> {
  await using user = await startUser();
  const { settings, as } = user;
  return await withServices(200, user, async (from) => {
    await using manager = await startManagerProcess({ settings, from });
    const rate = await repeated(() => throughput({ url: manager.url, requests: [listing], as }));
    return { rate, memory: manager.memory() };
  });
}
