import { Outside } from '../support/jobs.ts';
import { lastingPorts as freePorts } from '../support/lasting-port.ts';
import { startTestManager, type TestManager, temporaryDirectory } from '../support/manager.ts';
import { bothAt, type Hooks, Minio, type MinioOptions } from './minio.ts';

/** A manager in this process, and the MinIO that it uses and that sends it events. Both can be stopped and restarted. */
export class Scene implements AsyncDisposable {
  readonly minio: Minio;
  readonly outside: Outside;
  readonly #port: number;
  readonly #directory = temporaryDirectory();
  #manager: TestManager | undefined;

  private constructor(minio: Minio, port: number) {
    this.minio = minio;
    this.#port = port;
    this.outside = new Outside(`http://127.0.0.1:${port}`);
  }

  static async start(hooks: (url: string) => Hooks = bothAt, options: Pick<MinioOptions, 'data'> = {}): Promise<Scene> {
    const [port = 0] = await freePorts(1);
    const minio = await Minio.start({ ...options, hooks: hooks(hookAt(port)) });
    const scene = new Scene(minio, port);
    await scene.startManager();
    return scene;
  }

  get manager(): TestManager {
    if (!this.#manager) throw new Error('the manager is not running');
    return this.#manager;
  }

  /** Both targets, with the address of the manager. */
  get hooks(): Hooks {
    return bothAt(hookAt(this.#port));
  }

  async startManager(): Promise<void> {
    const settings = { ...this.minio.settings, OSCAR_LISTEN: `127.0.0.1:${this.#port}` };
    this.#manager = await startTestManager(settings, this.#directory);
  }

  async stopManager(): Promise<void> {
    await this.#manager?.stop();
    this.#manager = undefined;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#manager?.[Symbol.asyncDispose]();
    await this.minio.stop();
  }
}

const hookAt = (port: number) => `http://127.0.0.1:${port}/system/events/storage`;
