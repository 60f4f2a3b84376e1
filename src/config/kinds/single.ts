import { Secret } from '../../lib/secret.ts';
import { bytes, clusterIdProblem, MAX_MEMBERS, millicores } from '../../model/service/index.ts';
import { ALIAS_FORM } from '../../model/user-uid.ts';
import { listOf, problem, refusedSetting, type SettingKind, scalar } from './kind.ts';

/** The kinds of single values. */

export const text = scalar('text', (given) => given || undefined);

/** Kept as written, including spaces at both ends, and never shown. */
export const secret: SettingKind<Secret> = {
  accepts: 'text',
  parse: (raw) => (typeof raw === 'string' ? { value: new Secret(raw) } : refusedSetting(raw, 'text')),
};

const TRUE = /^(1|t|T|true|True|TRUE)$/;
const FALSE = /^(0|f|F|false|False|FALSE)$/;

/** The forms that Go's ParseBool accepts. */
export const flag = scalar('`true` or `false`', (given) =>
  TRUE.test(given) ? true : FALSE.test(given) ? false : undefined,
);

/** A setting of the Go manager for a feature that this manager does not have. */
export const unsupportedSetting: SettingKind<boolean> = {
  accepts: '`false`',
  parse(raw, context) {
    const parsed = flag.parse(raw, context);
    const on = 'value' in parsed && parsed.value;
    return on ? problem('is true, but that is not supported by this manager yet; accepted is `false`') : parsed;
  },
};

function wholeNumber(least: number, most = Number.MAX_SAFE_INTEGER) {
  return (given: string): number | undefined => {
    // Helm may render a number as `15.0`.
    const value = /^\d+(\.0+)?$/.test(given) ? Number(given) : Number.NaN;
    return value >= least && value <= most ? value : undefined;
  };
}

export const count = scalar('a whole number above 0', wholeNumber(1));
export const countOrNone = scalar('a whole number', wholeNumber(0));
export const members = scalar(`a whole number, 1 to ${MAX_MEMBERS}`, wholeNumber(1, MAX_MEMBERS));
export const percent = scalar('a whole number, 0 to 100', wholeNumber(0, 100));
export const seconds = scalar('seconds, a whole number above 0', wholeNumber(1));
export const secondsOrNone = scalar('seconds, a whole number', wholeNumber(0));
export const port = scalar('a port, 1 to 65535', wholeNumber(1, 65_535));
export const anyPort = scalar('a port, 1 to 65535; 0 is any free one', wholeNumber(0, 65_535));

const above0 = (value: number | undefined) => (value !== undefined && value > 0 ? value : undefined);

export const cpu = scalar('a quantity above 0, such as `2` or `500m`', (given) => above0(millicores(given)));
export const memory = scalar('a quantity above 0, such as `512Mi` or `4Gi`', (given) => above0(bytes(given)));
export const sizeOrNone = scalar('bytes, such as `1073741824` or `1Gi`; 0 is none', bytes);
export const sizeSetting = scalar('bytes, such as `1048576` or `8Mi`', (given) => above0(bytes(given)));

export const directories = listOf('absolute paths of directories, separated by commas', (given) =>
  given.startsWith('/') ? given : undefined,
);

export function oneOf<const T extends string>(...choices: readonly T[]): SettingKind<T> {
  const words = choices.map((choice) => `\`${choice}\``);
  const accepts = words.length > 1 ? `${words.slice(0, -1).join(', ')} or ${words.at(-1)}` : words.join();
  return scalar(accepts, (given) => choices.find((choice) => choice === given));
}

export const knative = scalar('`knative`, or empty; OpenFaaS is not supported', (given) =>
  given === 'knative' ? given : undefined,
);

/** Credentials are rejected because the URL is shown to users, a query because paths are appended to the URL. */
function webAddress(given: string): URL | undefined {
  const url = URL.parse(given);
  const plain = url && /^https?:$/.test(url.protocol) && !url.username && !url.password && !/[?#]/.test(given);
  return plain ? url : undefined;
}

const withoutSlash = (url: URL) => url.href.replace(/\/+$/, '');
const URL_FORM = 'an http or https URL without credentials and query';

export const url = scalar(URL_FORM, (given) => {
  const address = webAddress(given);
  return address && withoutSlash(address);
});

/** Kept exactly as written: tokens name their issuer, and with another trailing slash it is another issuer. */
export const issuers = listOf('http or https URLs, exactly as in the `iss` of tokens, separated by commas', (given) =>
  webAddress(given) ? given : undefined,
);

/** An issuer and the alias that stands before the `sub` of its users. */
export interface IssuerAlias {
  readonly alias: string;
  readonly issuer: string;
}

export const issuerAliases = listOf<IssuerAlias>(
  '`alias=issuer`, separated by commas; an alias has 2 to 32 lower-case letters, digits and hyphens',
  (given) => {
    const [, alias = '', issuer = ''] = /^([^=]*)=(.*)$/.exec(given) ?? [];
    return ALIAS_FORM.test(alias) && webAddress(issuer) ? { alias, issuer } : undefined;
  },
);

/** A cluster and its weight among the clusters that send jobs. */
export interface OriginWeight {
  readonly clusterId: string;
  readonly weight: number;
}

export const originWeights = listOf<OriginWeight>(
  '`cluster-id=weight`, separated by commas; a weight is a whole number, 0 to 1000',
  (given) => {
    const [, id = '', weight = ''] = /^([^=]*)=(\d{1,4})$/.exec(given) ?? [];
    const isValid = weight !== '' && Number(weight) <= 1_000 && clusterIdProblem(id) === undefined;
    return isValid ? { clusterId: id, weight: Number(weight) } : undefined;
  },
);

export const origins = listOf(
  'origins such as `https://dashboard.example.org`, separated by commas, or `*`',
  (given) => {
    if (given === '*') return given;
    const address = webAddress(given);
    return address?.pathname === '/' ? address.origin : undefined;
  },
);

export const texts = listOf('a list, separated by commas', (given) => given);

export const clusterId = scalar(
  '1 to 63 letters, digits, dots, hyphens and underscores, a letter or digit at both ends',
  (given) => (clusterIdProblem(given) === undefined ? given : undefined),
);

const LABEL = '[a-z0-9]([a-z0-9-]*[a-z0-9])?';
const DNS_LABEL = new RegExp(`^(?=.{1,63}$)${LABEL}$`);
const DNS_NAME = new RegExp(`^(?=.{1,253}$)${LABEL}(\\.${LABEL})*$`);

/** The name of a namespace or a Kubernetes Service. */
export const label = scalar('1 to 63 lower-case letters, digits and hyphens', (given) =>
  DNS_LABEL.test(given) ? given : undefined,
);

/** The name of most other Kubernetes objects. */
export const objectName = scalar('1 to 253 lower-case letters, digits, hyphens and dots', (given) =>
  DNS_NAME.test(given) ? given : undefined,
);

export const objectNames = listOf('names of objects of Kubernetes, separated by commas', (given) =>
  DNS_NAME.test(given) ? given : undefined,
);

/** No bucket of a user can have such a name (docs/security.md#buckets). */
export const stagingBucket = scalar(
  'a name that begins with `oscar-staging`: at most 63 lower-case letters, digits and hyphens',
  (given) => (DNS_LABEL.test(given) && given.startsWith('oscar-staging') ? given : undefined),
);

/** RFC 7617 §2: a colon ends the name in Basic credentials. */
export const accountName = scalar('text without a colon', (given) =>
  given.includes(':') ? undefined : given || undefined,
);

export const host = scalar('a host, with port and path if need be, without scheme', (given) =>
  /^[^\s/:?#@]+(:\d+)?(\/[^\s?#]*)?$/.test(given) ? given : undefined,
);
