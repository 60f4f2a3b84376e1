import { type Engine, EngineError, type EngineErrorCode } from './engine.ts';

/** On every container we make. The instance keeps two managers on one daemon apart. */
const ATTEMPT_LABEL = 'oscar.grycap/attempt';
const INSTANCE_LABEL = 'oscar.grycap/instance';

/** How long one question "has it stopped?" may stay open: a connection that died unnoticed costs no more than this. */
const WAIT_SLICE = 60_000;

export interface ContainerState {
  readonly id: string;
  readonly running: boolean;
  /** Absent: never started. */
  readonly startedAt?: number;
  readonly finishedAt?: number;
  readonly exitCode: number;
  readonly outOfMemory: boolean;
}

/** A container as the engine is asked to make it, see the API's `ContainerCreate`. */
export type ContainerSpec = Readonly<Record<string, unknown>>;

/** The containers of one manager, by the attempt they belong to. */
export class Containers {
  readonly #engine: Engine;
  readonly #instance: string;

  constructor(engine: Engine, instance: string) {
    this.#engine = engine;
    this.#instance = instance;
  }

  /** Are they Podman's? It differs in how it writes logs. */
  async podman(): Promise<boolean> {
    return (await this.#engine.version()).podman;
  }

  /** Makes it, without starting it. Throws `conflict` if the name is taken. */
  async create(name: string, attempt: string, spec: ContainerSpec): Promise<string> {
    const labels = { [ATTEMPT_LABEL]: attempt, [INSTANCE_LABEL]: this.#instance };
    const call = { query: { name }, body: { ...spec, Labels: labels } };
    const { Id } = await this.#engine.ask<{ Id: string }>('POST', '/containers/create', call);
    return Id;
  }

  async start(id: string): Promise<void> {
    await this.#engine.ask('POST', `/containers/${id}/start`);
  }

  /** By name or id. Undefined if there is none. Throws `conflict` for one of somebody else. */
  async inspect(name: string): Promise<ContainerState | undefined> {
    const found = await unlessAbsent(this.#engine.ask<Inspected>('GET', `/containers/${name}/json`));
    if (found && found.Config.Labels?.[INSTANCE_LABEL] !== this.#instance) {
      throw new EngineError('conflict', `the container ${name} belongs to somebody else: rename or remove it`);
    }
    return found && stateOf(found);
  }

  /** Resolves when it has stopped or is gone, or now and then: who asks looks again. */
  async wait(id: string, signal: AbortSignal): Promise<void> {
    const slice = AbortSignal.timeout(WAIT_SLICE);
    try {
      const call = { signal: AbortSignal.any([signal, slice]), deadline: Infinity };
      await unlessAbsent(this.#engine.ask('POST', `/containers/${id}/wait`, call));
    } catch (error) {
      if (signal.aborted || !slice.aborted) throw error;
    }
  }

  /** One line for each time that one of ours runs out of memory, from now on. */
  async memoryEvents(signal: AbortSignal): Promise<AsyncIterable<Uint8Array>> {
    const filters = JSON.stringify({ label: [`${INSTANCE_LABEL}=${this.#instance}`], event: ['oom'] });
    return await this.#engine.stream('GET', '/events', { query: { filters }, signal, deadline: Infinity });
  }

  /**
   * Has that happened to it? `kill`: somebody ended it through the engine, or the engine itself on its way out. The engine
   * remembers for a while, and not over its own end.
   */
  async has(event: 'kill' | 'oom', { id, startedAt }: { id: string; startedAt: number }): Promise<boolean> {
    const query = {
      since: Math.floor(startedAt / 1_000),
      until: Math.ceil(Date.now() / 1_000),
      filters: JSON.stringify({ container: [id], event: [event] }),
    };
    for await (const chunk of await this.#engine.stream('GET', '/events', { query })) return chunk.length > 0;
    return false;
  }

  /** Of one that is not running or gone: nothing. */
  async kill(id: string, signal: string): Promise<void> {
    await unless('conflict', unlessAbsent(this.#engine.ask('POST', `/containers/${id}/kill`, { query: { signal } })));
  }

  /** Drops it unless it runs. Throws `conflict` if it does. */
  async drop(id: string): Promise<void> {
    await unlessAbsent(this.#engine.ask('DELETE', `/containers/${id}`, { query: { v: true } }));
  }

  /** Ends and drops everything of an attempt. */
  async removeAll(attempt: string): Promise<void> {
    for (const { id } of await this.list(attempt)) await this.remove(id);
  }

  /** Ends and drops it, with its volumes. */
  async remove(id: string): Promise<void> {
    const query = { v: true, force: true };
    // A conflict: it is being removed already.
    await unless('conflict', unlessAbsent(this.#engine.ask('DELETE', `/containers/${id}`, { query })));
  }

  /** Ours, of all attempts or of one, whatever their state. */
  async list(attempt?: string): Promise<{ readonly id: string; readonly attempt: string }[]> {
    const label = [`${INSTANCE_LABEL}=${this.#instance}`];
    if (attempt !== undefined) label.push(`${ATTEMPT_LABEL}=${attempt}`);
    const query = { all: true, filters: JSON.stringify({ label }) };
    const found = await this.#engine.ask<Listed[]>('GET', '/containers/json', { query });
    return found.map(({ Id, Labels }) => ({ id: Id, attempt: Labels[ATTEMPT_LABEL] ?? '' }));
  }

  /** What it printed, each line with its time, from that second on. */
  async logs(id: string, { since, follow, signal }: LogRequest): Promise<AsyncIterable<Uint8Array>> {
    const query = { stdout: true, stderr: true, timestamps: true, follow, since };
    // Podman begins to answer with the first line.
    return await this.#engine.stream('GET', `/containers/${id}/logs`, { query, signal, deadline: Infinity });
  }

  async statistics(id: string): Promise<Statistics | undefined> {
    const query = { stream: false, 'one-shot': true };
    return await unlessAbsent(this.#engine.ask<Statistics>('GET', `/containers/${id}/stats`, { query }));
  }
}

interface LogRequest {
  /** Unix time. */
  readonly since: number;
  readonly follow: boolean;
  readonly signal: AbortSignal;
}

/** Empty objects for a container that has just ended. */
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
  readonly Config: { readonly Labels?: Readonly<Record<string, string>> };
  readonly State: {
    readonly Running: boolean;
    readonly OOMKilled: boolean;
    readonly ExitCode: number;
    readonly StartedAt: string;
    readonly FinishedAt: string;
  };
}

function stateOf({ Id, State }: Inspected): ContainerState {
  const startedAt = timeOf(State.StartedAt);
  const finishedAt = timeOf(State.FinishedAt);
  return {
    id: Id,
    running: State.Running,
    ...(startedAt !== undefined && { startedAt }),
    ...(finishedAt !== undefined && { finishedAt }),
    exitCode: State.ExitCode,
    outOfMemory: State.OOMKilled,
  };
}

/** What has not happened has the year 1. */
function timeOf(text: string): number | undefined {
  const time = Date.parse(text);
  return time > 0 ? time : undefined;
}

const unlessAbsent = <T>(answer: Promise<T>) => unless('absent', answer);

async function unless<T>(code: EngineErrorCode, answer: Promise<T>): Promise<T | undefined> {
  try {
    return await answer;
  } catch (error) {
    if (error instanceof EngineError && error.code === code) return undefined;
    throw error;
  }
}
