import { readFileSync } from 'node:fs';
import { ServiceError } from '../../service/errors.ts';
import { type FdlService, readFdl } from '../../service/fdl.ts';
import { ClientError } from './errors.ts';
import { unknownKeys } from './fdl-warnings.ts';
import type { Terminal } from './terminal.ts';

/** A service of a file that is ready to be sent somewhere. */
export interface FileService extends FdlService {
  readonly name: string;
  readonly body: Record<string, unknown> & FederatedBody;
}

/** What the command line looks at itself; the rest is for the manager to judge. */
interface FederatedBody {
  readonly federation?: {
    readonly members?: readonly { readonly cluster_id?: string; readonly service_name?: string }[];
  };
  readonly clusters?: Readonly<Record<string, unknown>>;
  readonly environment?: { readonly secrets?: Readonly<Record<string, unknown>> };
}

/** Reads an FDL file; what has no effect in it is warned about, what cannot be is an error with its place. */
export function readFdlFile(file: string, terminal: Terminal): FileService[] {
  const text = textOf(file);
  const services = parsed(file, text);
  for (const warning of unknownKeys(file, text)) terminal.warn(warning);
  const seen = new Map<string, number>();
  return services.map((service) => {
    const { name } = service.body;
    if (typeof name !== 'string' || name === '') {
      throw new ClientError('bad-input', `${file}:${service.line}: name is required`);
    }
    const place = `${service.clusterId ?? ''}/${name}`;
    const before = seen.get(place);
    if (before !== undefined) {
      throw new ClientError(
        'bad-input',
        `${file}:${service.line}: "${name}" is in line ${before} already: give one of them another name`,
      );
    }
    seen.set(place, service.line);
    return { ...service, name, body: service.body };
  });
}

function textOf(file: string): string {
  try {
    return readFileSync(file, 'utf8');
  } catch (cause) {
    throw new ClientError('bad-input', `${file} cannot be read: ${(cause as Error).message}`, { cause });
  }
}

function parsed(name: string, text: string): FdlService[] {
  try {
    return readFdl({ name, text, readScript: (path) => readFileSync(path, 'utf8') });
  } catch (error) {
    if (!(error instanceof ServiceError)) throw error;
    const [, place] = /^(.*?:\d+:\d+): Tabs are not allowed/.exec(error.message) ?? [];
    const message = place ? `${place}: there is a tab where YAML wants spaces` : error.message;
    throw new ClientError('bad-input', message, { cause: error });
  }
}
