import { X509Certificate } from 'node:crypto';
import { clusterIdProblem } from '../../model/service/index.ts';
import { mapOf, problem, record, refusedSetting, type SettingKind, type Values } from './kind.ts';
import { flag, oneOf, url } from './single.ts';
import { mapOrFile, readText } from './yaml.ts';

const CERTIFICATES = /-----BEGIN CERTIFICATE-----[^-]+-----END CERTIFICATE-----/g;

/** Certificates are parsed here, so that a wrong file is reported at start and not at the first request to that cluster. */
const certificates: SettingKind<string> = {
  accepts: 'PEM certificates, or the name of a file with them',
  parse(raw, context) {
    if (typeof raw !== 'string') return refusedSetting(raw, this.accepts);
    const inPlace = raw.includes('-----BEGIN');
    const pem = inPlace ? { value: raw } : readText(raw.trim(), context);
    if ('problems' in pem) return pem;
    const blocks = pem.value.match(CERTIFICATES) ?? [];
    if (blocks.length > 0 && blocks.every(isCertificate)) return { value: blocks.join('\n') };
    return problem(inPlace ? 'is not a PEM certificate' : `is ${JSON.stringify(raw)}, a file without PEM certificates`);
  },
};

function isCertificate(pem: string): boolean {
  try {
    return new X509Certificate(pem).raw.length > 0;
  } catch {
    return false;
  }
}

export const CLUSTER_FIELDS = {
  endpoint: { name: 'endpoint', kind: url, required: true, meaning: 'URL of the manager of that cluster.' },
  store: { name: 'store', kind: url, meaning: 'URL of its object store, if jobs read from it.' },
  sslVerify: { name: 'ssl_verify', kind: flag, default: 'true', meaning: 'Verify its certificate.' },
  ca: { name: 'ca', kind: certificates, meaning: 'The private certification authority that signed its certificate.' },
  kind: {
    name: 'kind',
    kind: oneOf('oscar', 'upstream'),
    default: 'oscar',
    meaning: '`upstream` for a manager written in Go, which supports fewer federation features.',
  },
} as const;

/** A cluster that the operator trusts (docs/security.md#addresses-that-users-choose). */
export type RegisteredCluster = Values<typeof CLUSTER_FIELDS>;

const cluster = record(CLUSTER_FIELDS);

export const clustersSetting = mapOrFile(
  mapOf<RegisteredCluster>('a map from cluster ids to their addresses', (id) => {
    const wrong = clusterIdProblem(id);
    return wrong ? `is not a cluster id: it ${wrong}` : cluster;
  }),
);
