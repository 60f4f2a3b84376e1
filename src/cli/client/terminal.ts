/** The output of a command: results go to standard output, messages to standard error. */
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
    // https://no-color.org: any non-empty value turns colours off.
    this.#colours = streams.out.isTTY && !env['NO_COLOR'] && env['TERM'] !== 'dumb';
  }

  /** Whether a user watches the terminal. Otherwise no status lines are written. */
  get isWatched(): boolean {
    return this.#err.isTTY && !this.#quiet;
  }

  print(text: string): void {
    this.#clear();
    this.#out.write(`${text}\n`);
  }

  /** Writes raw bytes. */
  async write(bytes: Uint8Array): Promise<void> {
    this.#clear();
    await new Promise<void>((resolve, reject) =>
      this.#out.write(bytes, (error) => (error ? reject(error) : resolve())),
    );
  }

  /** A message that `--quiet` suppresses. */
  note(text: string): void {
    if (!this.#quiet) this.#writeLine(text);
  }

  /** A message that `--quiet` does not suppress. */
  warn(text: string): void {
    this.#writeLine(`warning: ${text}`);
  }

  /** A prompt, or something that the user must do. */
  ask(text: string): void {
    this.#writeLine(text);
  }

  /** A line that the next output replaces. */
  status(text: string): void {
    if (!this.isWatched || text === this.#status) return;
    this.#err.write(`\r\u001b[K${text.slice(0, (this.#err.columns || 80) - 1)}`);
    this.#status = text;
  }

  colour(name: 'green' | 'red' | 'yellow' | 'dim', text: string): string {
    return this.#colours ? `\u001b[${COLOURS[name]}m${text}\u001b[0m` : text;
  }

  #writeLine(text: string): void {
    this.#clear();
    this.#err.write(`${text}\n`);
  }

  #clear(): void {
    if (this.#status !== '') this.#err.write('\r\u001b[K');
    this.#status = '';
  }
}

const COLOURS = { green: 32, red: 31, yellow: 33, dim: 2 };
