import { readdirSync, readFileSync } from 'node:fs';
import { type Profiler, Session } from 'node:inspector/promises';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';

/** Functions of files, each as `<path>:<where it begins>`. The path is relative to the folder that is watched. */
export type Functions = ReadonlySet<string>;

/** The files that these functions are in. */
export const filesOfFunctions = (functions: Functions): string[] =>
  [...new Set([...functions].map((each) => each.slice(0, each.lastIndexOf(':'))))].toSorted();

/** Says which functions of a folder this process runs. */
export class FunctionCoverage implements AsyncDisposable {
  readonly #session: Session;
  readonly #folder: string;

  private constructor(session: Session, folder: string) {
    this.#session = session;
    this.#folder = folder;
  }

  static async start(folder: string): Promise<FunctionCoverage> {
    const session = new Session();
    session.connect();
    await session.post('Profiler.enable');
    await session.post('Profiler.startPreciseCoverage', { callCount: true, detailed: false });
    return new FunctionCoverage(session, folder);
  }

  /** The functions that ran since this was last called. */
  async take(): Promise<Functions> {
    const { result } = await this.#session.post('Profiler.takePreciseCoverage');
    return functionsThatRan(result, this.#folder);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#session.post('Profiler.stopPreciseCoverage');
    this.#session.disconnect();
  }
}

/** The functions that ran in processes with this `NODE_V8_COVERAGE`, from their start to their end. */
export function functionsOfProcesses(directory: string, folder: string): Functions {
  const reports = readdirSync(directory).map((file) => JSON.parse(readFileSync(join(directory, file), 'utf8')));
  return functionsThatRan(
    reports.flatMap((report: { readonly result: Profiler.ScriptCoverage[] }) => report.result),
    folder,
  );
}

function functionsThatRan(scripts: readonly Profiler.ScriptCoverage[], folder: string): Functions {
  const prefix = `${pathToFileURL(folder).href}/`;
  return new Set(
    scripts
      .filter(({ url }) => url.startsWith(prefix))
      .flatMap(({ url, functions }) =>
        functions.filter(ran).map(({ ranges }) => `${url.slice(prefix.length)}:${ranges[0]?.startOffset}`),
      ),
  );
}

/** A module runs when it is loaded: that is not one of its functions. */
function ran({ functionName, ranges: [whole] }: Profiler.FunctionCoverage): boolean {
  const isModule = functionName === '' && whole?.startOffset === 0;
  return !isModule && (whole?.count ?? 0) > 0;
}
