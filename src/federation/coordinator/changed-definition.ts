import { type Definition, type DefinitionSecrets, REFRESH_TOKEN_SLOT, readDefinition } from '../../service/index.ts';
import type { StorageProviders } from '../../service/schema.ts';
import { applyIntention, type Intention } from '../members.ts';
import type { ReadDefinition } from './coordination.ts';

/** What is stored, with its secrets. */
interface Stored {
  readonly definition: Definition;
  readonly secrets: DefinitionSecrets;
}

const TOKEN = 'refresh_token';

/** A whole definition in place of another: without members in it they stay as they are. */
export function replacedBy(body: unknown, stored: Stored): ReadDefinition {
  return withToken(wholeBy(body, stored), stored);
}

/** Until it had a federation, a refresh token was like any other secret of the service: left blank, it is kept. */
function withToken(given: ReadDefinition, { definition, secrets }: Stored): ReadDefinition {
  const token = secrets.environment[TOKEN];
  const { federation, environment } = given.definition;
  const brought = given.secrets.credentials[REFRESH_TOKEN_SLOT];
  const isBlank = Object.hasOwn(environment.secrets, TOKEN) && (!brought || brought.equals(''));
  if (!federation || definition.federation || !token || !isBlank) return given;
  const credentials = { ...given.secrets.credentials, [REFRESH_TOKEN_SLOT]: token };
  return { ...given, secrets: { ...given.secrets, credentials } };
}

function wholeBy(body: unknown, { definition: stored }: Stored): ReadDefinition {
  const given = readDefinition(body);
  const federation = given.definition.federation ?? stored.federation;
  const isSilent = (given.definition.federation?.members ?? []).length === 0;
  if (!federation || !isSilent) return given;
  const { members } = stored.federation ?? {};
  const others = Object.entries(body as object).filter(([key]) => key.toLowerCase() !== 'federation');
  const whole = { ...Object.fromEntries(others), federation: { ...federation, ...(members && { members }) } };
  return readDefinition(whole);
}

/** The stored definition with other members. */
export function changedBy(intention: Intention, { definition, secrets }: Stored): ReadDefinition {
  const { federation, clusters, storage_providers, environment } = definition;
  const token = secrets.environment[TOKEN];
  // Until it had a federation, a refresh token was like any other secret of the service.
  const values = federation || !token ? {} : { [TOKEN]: token.reveal() };
  return readDefinition({
    ...definition,
    environment: { ...environment, secrets: { ...environment.secrets, ...values } },
    federation: { ...federation, members: applyIntention(intention, federation?.members ?? []) },
    clusters: { ...clusters, ...intention.clusters },
    storage_providers: merged(storage_providers, intention.storageProviders),
  });
}

function merged(stored: StorageProviders = {}, given: StorageProviders = {}): StorageProviders {
  const types = new Set([...Object.keys(stored), ...Object.keys(given)]) as Set<keyof StorageProviders>;
  return Object.fromEntries([...types].map((type) => [type, { ...stored[type], ...given[type] }]));
}
