import { type Engine, EngineError, type EngineErrorCode } from './engine.ts';

/** Labels of every container that this manager creates. The instance separates two managers on one daemon. */
const ATTEMPT_LABEL = 'oscar.grycap/attempt';
const INSTANCE_LABEL = 'oscar.grycap/instance';

/** Longer: a connection that broke silently hides the end of a script for longer. Shorter: more requests per container. */
const WAIT_SLICE = 60_000;

export interface ContainerState {
  readonly id: string;
  readonly running: boolean;
  /** Absent if the container was never started. */
  readonly startedAt?: number;
  readonly finishedAt?: number;
  readonly exitCode: number;
  readonly outOfMemory: boolean;
}

/** The body of the Engine API's `ContainerCreate`. */
export type ContainerSpec = Readonly<Record<string, unknown>>;

/** The containers of one manager. Each belongs to an attempt. */
export class Containers {
  readonly #engine: Engine;
  readonly #instance: string;

  constructor(engine: Engine, instance: string) {
    this.#engine = engine;
    this.#instance = instance;
  }

  /** Whether the engine is Podman, which writes logs differently. */
  async isPodman(): Promise<boolean> {
    return (await this.#engine.version()).podman;
  }

  /** Creates a container without starting it. Throws `conflict` if the name is taken. */
  async create(name: string, attempt: string, spec: ContainerSpec): Promise<string> {
    const labels = { [ATTEMPT_LABEL]: attempt, [INSTANCE_LABEL]: this.#instance };
    const call = { query: { name }, body: { ...spec, Labels: labels } };
    const { Id } = await this.#engine.request<{ Id: string }>('POST', '/containers/create', call);
    return Id;
  }

  async start(id: string): Promise<void> {
    await this.#engine.request('POST', `/containers/${id}/start`);
  }

  /** Finds a container by name or id. Throws `conflict` if another instance or program created it. */
  async inspect(name: string): Promise<ContainerState | undefined> {
    const found = await ignoreAbsent(this.#engine.request<Inspected>('GET', `/containers/${name}/json`));
    if (found && found.Config.Labels?.[INSTANCE_LABEL] !== this.#instance) {
      throw new EngineError('conflict', `the container ${name} was not created by this manager: rename or remove it`);
    }
    return found && toContainerState(found);
  }

  /** Bytes that the container has written to its own file system, which the engine finds out by walking through it. */
  async writtenBytes(id: string): Promise<number> {
    const query = { size: 'true' };
    const found = await ignoreAbsent(this.#engine.request<Inspected>('GET', `/containers/${id}/json`, { query }));
    return found?.SizeRw ?? 0;
  }

  /** Resolves when the container stopped or was removed, or after {@link WAIT_SLICE}: the caller must check the state again. */
  async wait(id: string, signal: AbortSignal): Promise<void> {
    const slice = AbortSignal.timeout(WAIT_SLICE);
    try {
      const call = { signal: AbortSignal.any([signal, slice]), deadline: Infinity };
      await ignoreAbsent(this.#engine.request('POST', `/containers/${id}/wait`, call));
    } catch (error) {
      if (signal.aborted || !slice.aborted) throw error;
    }
  }

  /** Streams one line for each time that a container of this manager runs out of memory from now on. */
  async outOfMemoryEvents(signal: AbortSignal): Promise<AsyncIterable<Uint8Array>> {
    const filters = JSON.stringify({ label: [`${INSTANCE_LABEL}=${this.#instance}`], event: ['oom'] });
    return await this.#engine.stream('GET', '/events', { query: { filters }, signal, deadline: Infinity });
  }

  /**
   * Whether the engine remembers such an event of the container. `kill` means that a client of the engine killed it, or the
   * engine itself when it shut down. The engine keeps events for a while, and forgets them when it restarts.
   */
  async hasEvent(event: 'kill' | 'oom', { id, startedAt }: { id: string; startedAt: number }): Promise<boolean> {
    const query = {
      since: Math.floor(startedAt / 1_000),
      until: Math.ceil(Date.now() / 1_000),
      filters: JSON.stringify({ container: [id], event: [event] }),
    };
    for await (const chunk of await this.#engine.stream('GET', '/events', { query })) return chunk.length > 0;
    return false;
  }

  /** Does nothing if the container does not run or does not exist. */
  async kill(id: string, signal: string): Promise<void> {
    await ignoreError(
      'conflict',
      ignoreAbsent(this.#engine.request('POST', `/containers/${id}/kill`, { query: { signal } })),
    );
  }

  /** Throws `conflict` if the container runs. */
  async removeStopped(id: string): Promise<void> {
    await ignoreAbsent(this.#engine.request('DELETE', `/containers/${id}`, { query: { v: true } }));
  }

  /** Kills and removes all containers of an attempt. */
  async removeAll(attempt: string): Promise<void> {
    for (const { id } of await this.list(attempt)) await this.remove(id);
  }

  /** Kills and removes a container, with its volumes. */
  async remove(id: string): Promise<void> {
    const query = { v: true, force: true };
    // A conflict means that it is being removed already.
    await ignoreError('conflict', ignoreAbsent(this.#engine.request('DELETE', `/containers/${id}`, { query })));
  }

  /** The containers of this manager in any state, of all attempts or of one. */
  async list(attempt?: string): Promise<{ readonly id: string; readonly attempt: string }[]> {
    const label = [`${INSTANCE_LABEL}=${this.#instance}`];
    if (attempt !== undefined) label.push(`${ATTEMPT_LABEL}=${attempt}`);
    const query = { all: true, filters: JSON.stringify({ label }) };
    const found = await this.#engine.request<Listed[]>('GET', '/containers/json', { query });
    return found.map(({ Id, Labels }) => ({ id: Id, attempt: Labels[ATTEMPT_LABEL] ?? '' }));
  }

  /** Streams what the container printed since that second, each line with its time. */
  async logs(id: string, { since, follow, signal }: LogRequest): Promise<AsyncIterable<Uint8Array>> {
    const query = { stdout: true, stderr: true, timestamps: true, follow, since };
    // No deadline: Podman sends its response headers only with the first line.
    return await this.#engine.stream('GET', `/containers/${id}/logs`, { query, signal, deadline: Infinity });
  }

  async statistics(id: string): Promise<Statistics | undefined> {
    const query = { stream: false, 'one-shot': true };
    return await ignoreAbsent(this.#engine.request<Statistics>('GET', `/containers/${id}/stats`, { query }));
  }
}

interface LogRequest {
  /** Unix time. */
  readonly since: number;
  readonly follow: boolean;
  readonly signal: AbortSignal;
}

/** The objects are empty for a container that has just ended. */
export interface Statistics {
  readonly cpu_stats?: { readonly cpu_usage?: { readonly total_usage?: number } };
  readonly memory_stats?: {
    readonly usage?: number;
    readonly stats?: { readonly inactive_file?: number; readonly total_inactive_file?: number };
  };
}

interface Listed {
  readonly Id: string;
  readonly Labels: Readonly<Record<string, string>>;
}

interface Inspected {
  readonly Id: string;
  /** Only if the request asks for it. */
  readonly SizeRw?: number;
  readonly Config: { readonly Labels?: Readonly<Record<string, string>> };
  readonly State: {
    readonly Running: boolean;
    readonly OOMKilled: boolean;
    readonly ExitCode: number;
    readonly StartedAt: string;
    readonly FinishedAt: string;
  };
}

function toContainerState({ Id, State }: Inspected): ContainerState {
  const startedAt = parseTime(State.StartedAt);
  const finishedAt = parseTime(State.FinishedAt);
  return {
    id: Id,
    running: State.Running,
    ...(startedAt !== undefined && { startedAt }),
    ...(finishedAt !== undefined && { finishedAt }),
    exitCode: State.ExitCode,
    outOfMemory: State.OOMKilled,
  };
}

/** The engine reports the year 1 for what has not happened yet. */
function parseTime(text: string): number | undefined {
  const time = Date.parse(text);
  return time > 0 ? time : undefined;
}

const ignoreAbsent = <T>(answer: Promise<T>) => ignoreError('absent', answer);

async function ignoreError<T>(code: EngineErrorCode, answer: Promise<T>): Promise<T | undefined> {
  try {
    return await answer;
  } catch (error) {
    if (error instanceof EngineError && error.code === code) return undefined;
    throw error;
  }
}
