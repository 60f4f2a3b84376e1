import { execFile } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';

const run = promisify(execFile);

/** Longer than any test, but short, so that the certificates are soon of no use to anyone. */
const DAYS = '2';

/** The subject of a client certificate: Kubernetes takes the user from CN and the groups from O. */
export interface Subject {
  readonly name: string;
  readonly group?: string;
}

/** A certificate authority with all files in one directory. Uses openssl, because Node cannot create certificates. */
export class Certificates {
  readonly #directory: string;

  private constructor(directory: string) {
    this.#directory = directory;
  }

  static async make(directory: string): Promise<Certificates> {
    await run('openssl', ['version']).catch((cause) => {
      throw new Error('the Kubernetes tests need the program `openssl` to make certificates: install it', { cause });
    });
    const made = new Certificates(directory);
    await made.#key('ca');
    const usage = 'keyUsage=critical,keyCertSign,cRLSign';
    const authority = ['-subj', '/CN=test-ca', '-days', DAYS, '-addext', usage, '-out', made.path('ca.crt')];
    await run('openssl', ['req', '-x509', '-new', '-sha256', '-key', made.path('ca.key'), ...authority]);
    // Signs the tokens of service accounts.
    await run('openssl', ['genrsa', '-out', made.path('sa.key'), '2048']);
    await run('openssl', ['rsa', '-in', made.path('sa.key'), '-pubout', '-out', made.path('sa.pub')]);
    return made;
  }

  path(file: string): string {
    return join(this.#directory, file);
  }

  async server(file: string, names: string): Promise<void> {
    await this.#sign(file, '/CN=kube-apiserver', `extendedKeyUsage=serverAuth\nsubjectAltName=${names}\n`);
  }

  async client(file: string, { name, group }: Subject): Promise<void> {
    const subject = group === undefined ? `/CN=${name}` : `/O=${group}/CN=${name}`;
    await this.#sign(file, subject, 'extendedKeyUsage=clientAuth\n');
  }

  async base64(file: string): Promise<string> {
    return (await readFile(this.path(file))).toString('base64');
  }

  async #key(file: string): Promise<void> {
    await run('openssl', ['ecparam', '-name', 'prime256v1', '-genkey', '-noout', '-out', this.path(`${file}.key`)]);
  }

  async #sign(file: string, subject: string, extensions: string): Promise<void> {
    await this.#key(file);
    const [key, request, usage] = [this.path(`${file}.key`), this.path(`${file}.csr`), this.path(`${file}.ext`)];
    await writeFile(usage, `basicConstraints=critical,CA:FALSE\n${extensions}`);
    await run('openssl', ['req', '-new', '-key', key, '-subj', subject, '-out', request]);
    // A random serial number instead of a counter, because several certificates are created concurrently.
    const serial = `0x${randomBytes(8).toString('hex')}`;
    const authority = ['-CA', this.path('ca.crt'), '-CAkey', this.path('ca.key'), '-set_serial', serial];
    const certificate = ['-days', DAYS, '-extfile', usage, '-out', this.path(`${file}.crt`)];
    await run('openssl', ['x509', '-req', '-sha256', '-in', request, ...authority, ...certificate]);
  }
}
