import { networkInterfaces } from 'node:os';

export interface OwnAddress {
  /** Under which others reach this manager (`OSCAR_ENDPOINT`). */
  readonly endpoint?: string;
  /** Where it listens, once it does; the host of an IPv6 address stands without brackets. */
  readonly listening: () => readonly { readonly host: string; readonly port: number }[];
  /** The addresses of this machine. */
  readonly addresses?: () => readonly string[];
}

/** Is this endpoint the manager itself, so that nobody is to be dialled (design §6)? A name that leads here is not known. */
export function ownAddress(own: OwnAddress): (endpoint: string) => boolean {
  const named = own.endpoint === undefined ? undefined : normalEndpoint(own.endpoint);
  const addresses = own.addresses ?? ofThisMachine;
  return (endpoint) => {
    const normal = normalEndpoint(endpoint);
    if (normal === undefined) return false;
    if (normal === named) return true;
    const { protocol, port, pathname, hostname } = new URL(normal);
    if (protocol !== 'http:' || pathname !== '/') return false;
    const listens = own.listening().filter((each) => each.port === Number(port || 80));
    const host = bare(hostname);
    return listens.some((each) => hears(each.host, host, addresses));
  };
}

/** One spelling of each: lower case, no usual port, no slash at the end. Undefined when it is no address of a server. */
export function normalEndpoint(endpoint: string): string | undefined {
  const url = URL.parse(endpoint);
  if (!url || !/^https?:$/.test(url.protocol)) return undefined;
  const host = url.host.replace(/\.(?=:|$)/, '');
  return `${url.protocol}//${host}${url.pathname.replace(/\/+$/, '')}`;
}

/** Does who listens on this host hear what is sent to that one? */
function hears(listening: string, host: string, addresses: () => readonly string[]): boolean {
  const here = bare(listening.toLowerCase());
  if (here === host) return true;
  if (here === '0.0.0.0' || here === '::') return isLoopback(host) || addresses().some((each) => bare(each) === host);
  return here === 'localhost' ? isLoopback(host) : host === 'localhost' && isLoopback(here);
}

const isLoopback = (host: string) => host === 'localhost' || host === '::1' || /^127(\.\d+){3}$/.test(host);

/** As one writes it without a port: no brackets, and an IPv4 address that is dressed as IPv6 as what it is. */
function bare(host: string): string {
  const plain = host.replace(/^\[|\]$/g, '');
  const [, high, low] = /^::ffff:([0-9a-f]{1,4}):([0-9a-f]{1,4})$/.exec(plain) ?? [];
  if (high === undefined || low === undefined) return plain;
  return [high, low]
    .map((group) => Number.parseInt(group, 16))
    .flatMap((group) => [group >> 8, group & 0xff])
    .join('.');
}

const ofThisMachine = () =>
  Object.values(networkInterfaces()).flatMap((each) => (each ?? []).map(({ address }) => address.toLowerCase()));
