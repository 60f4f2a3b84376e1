import { type Catalog, forgetSecrets, ownerOfSecrets } from '../../../catalog/index.ts';
import { isRace, type SecretRecord, type ServiceRecord } from '../../../cluster/index.ts';
import type { DefinitionSecrets } from '../../../service/index.ts';

/**
 * Makes the secrets those of a record that was just written. Whoever wrote the record last has the last word about them:
 * their versions are read before the record is looked at, so that a writer who was overtaken in between is refused. For the
 * same reason they are written also when they are the same.
 */
export async function swapSecrets(
  { service, version }: ServiceRecord,
  { environment, credentials }: DefinitionSecrets,
  catalog: Pick<Catalog, 'services' | 'secrets' | 'now'>,
): Promise<void> {
  const { services, secrets } = catalog;
  const { uid, namespace, definition } = service;
  const place = `${namespace}/${definition.name}`;
  for (;;) {
    const stored = await secrets.get('service', place);
    const credentialsStored = await secrets.get('credentials', uid);
    if ((await services.get(definition.name))?.version !== version) return;
    try {
      await secrets.put('service', place, environment, versionOf(stored));
      await secrets.put('credentials', uid, credentials, versionOf(credentialsStored));
      break;
    } catch (error) {
      if (!isRace(error)) throw error;
    }
  }
  // It may have been removed just now, secrets first looked for before ours were there.
  const current = await services.get(definition.name);
  if (current?.service.uid !== uid) await forgetSecrets(ownerOfSecrets(service), catalog);
}

const versionOf = (record: SecretRecord | undefined) => record?.version ?? 'absent';
