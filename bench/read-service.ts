import { fileURLToPath } from 'node:url';
import type { Figure, Measured } from './support/benchmark.ts';
import { interleaved, repeated } from './support/interleaved.ts';
import { startManagerProcess } from './support/manager-process.ts';
import { namesOf, reading, withServices } from './support/services.ts';
import { throughput } from './support/throughput.ts';
import { type BenchUser, startUser } from './support/user.ts';

export const description = 'GET of one service by a user with an access token, 16 connections';

export const figures = {
  among200: { what: 'GET a service among 200, OIDC', unit: '/s', reach: ['≥', 3_000], goManager: '0.7/s' },
  guarded: { what: '… relative to no authentication', unit: '%', reach: ['≥', 70] },
  among10: { what: 'GET a service among 10', unit: '/s' },
  among10000: { what: 'GET one of ten services among 10,000', unit: '/s' },
  grown: { what: '… relative to among 10', unit: '%', reach: ['≥', 80] },
  each10000: { what: 'GET each of 10,000 services in turn', unit: '/s' },
} satisfies Record<string, Figure>;

/** The same routes without authentication, in a process of their own. */
const UNGUARDED = fileURLToPath(import.meta.resolve('./support/unguarded-manager.ts'));

export async function run(): Promise<Measured<typeof figures>> {
  await using user = await startUser();
  return { ...(await withAndWithoutAuthentication(user)), ...(await amongFewAndMany(user)) };
}

function withAndWithoutAuthentication(user: BenchUser) {
  return withServices(200, user, async (from) => {
    const { settings, as } = user;
    await using guarded = await startManagerProcess({ settings, from });
    await using unguarded = await startManagerProcess({ from, program: [UNGUARDED] });
    const requests = namesOf(200).map(reading);
    const { second, ratio } = await interleaved(
      () => throughput({ url: unguarded.url, requests }),
      () => throughput({ url: guarded.url, requests, as }),
    );
    return { among200: second, guarded: ratio * 100 };
  });
}

/** Ten services are asked for in both cases, so that nothing differs but how many there are beside them. */
function amongFewAndMany(user: BenchUser) {
  const { settings, as } = user;
  return withServices(10, user, (few) =>
    withServices(10_000, user, async (many) => {
      await using small = await startManagerProcess({ settings, from: few });
      await using large = await startManagerProcess({ settings, from: many });
      const all = namesOf(10_000);
      const everyThousandth = all.filter((_, index) => index % 1_000 === 0);
      const { first, second, ratio } = await interleaved(
        () => throughput({ url: small.url, requests: namesOf(10).map(reading), as }),
        () => throughput({ url: large.url, requests: everyThousandth.map(reading), as }),
      );
      const each10000 = await repeated(() => throughput({ url: large.url, requests: all.map(reading), as }));
      return { among10: first, among10000: second, grown: ratio * 100, each10000 };
    }),
  );
}
