/** Where a command writes: results to standard output, everything about them to standard error. */
export class Terminal {
  readonly #out: NodeJS.WriteStream;
  readonly #err: NodeJS.WriteStream;
  readonly #quiet: boolean;
  readonly #colours: boolean;
  #status = '';

  constructor(streams: { out: NodeJS.WriteStream; err: NodeJS.WriteStream }, env: NodeJS.ProcessEnv, quiet: boolean) {
    this.#out = streams.out;
    this.#err = streams.err;
    this.#quiet = quiet;
    // https://no-color.org: any value but an empty one.
    this.#colours = streams.out.isTTY && !env['NO_COLOR'] && env['TERM'] !== 'dumb';
  }

  /** Is somebody looking? Otherwise nothing is written that is written over later. */
  get isWatched(): boolean {
    return this.#err.isTTY && !this.#quiet;
  }

  print(text: string): void {
    this.#clear();
    this.#out.write(`${text}\n`);
  }

  /** Bytes as they are. */
  async write(bytes: Uint8Array): Promise<void> {
    this.#clear();
    await new Promise<void>((resolve, reject) =>
      this.#out.write(bytes, (error) => (error ? reject(error) : resolve())),
    );
  }

  /** What is good to know; not with `--quiet`. */
  note(text: string): void {
    if (!this.#quiet) this.#tell(text);
  }

  /** Whatever somebody has asked to be spared, this is not it. */
  warn(text: string): void {
    this.#tell(`warning: ${text}`);
  }

  /** A question, or what is needed to go on. */
  ask(text: string): void {
    this.#tell(text);
  }

  /** One line that the next one takes the place of. */
  status(text: string): void {
    if (!this.isWatched || text === this.#status) return;
    this.#err.write(`\r\u001b[K${text.slice(0, (this.#err.columns || 80) - 1)}`);
    this.#status = text;
  }

  colour(name: 'green' | 'red' | 'yellow' | 'dim', text: string): string {
    return this.#colours ? `\u001b[${COLOURS[name]}m${text}\u001b[0m` : text;
  }

  #tell(text: string): void {
    this.#clear();
    this.#err.write(`${text}\n`);
  }

  #clear(): void {
    if (this.#status !== '') this.#err.write('\r\u001b[K');
    this.#status = '';
  }
}

const COLOURS = { green: 32, red: 31, yellow: 33, dim: 2 };
