import { spawnSync } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import type { ClusterClient } from '../../client/cluster-client.ts';

/** An example that turns pictures grey. */
export interface Shown {
  readonly file: string;
  readonly service: string;
  /** What becomes of `x.ppm`. */
  readonly resultOf: (stem: string) => string;
  /** For people. */
  readonly remark: string;
}

const example = (name: string) => fileURLToPath(new URL(`../../../../examples/${name}`, import.meta.url));

const QUICKSTART: Shown = {
  file: example('quickstart.yaml'),
  service: 'grayifyr0',
  resultOf: (stem) => `${stem}.ppm`,
  remark: 'examples/quickstart.yaml: ImageMagick turns pictures grey',
};

const SHELL: Shown = {
  file: example('grey.yaml'),
  service: 'grey0',
  resultOf: (stem) => `${stem}.pgm`,
  remark: 'examples/grey.yaml: a shell script turns pictures grey',
};

/**
 * The quickstart, where its script finds ImageMagick. In containers it would have it, but the image is large to fetch for
 * somebody who looks on: the other one needs nothing but a shell.
 */
export async function whatToShow(cluster: ClusterClient, env: NodeJS.ProcessEnv): Promise<Shown> {
  const { runtime } = (await cluster.call('GET', '/system/info')).json() as { runtime?: string };
  return runtime?.startsWith('process') && hasImageMagick(env) ? QUICKSTART : SHELL;
}

/** Others have programs of these names, too. */
function hasImageMagick(env: NodeJS.ProcessEnv): boolean {
  return ['magick', 'convert'].some((name) => {
    const { stdout } = spawnSync(name, ['-version'], { env, encoding: 'utf8', timeout: 5_000 });
    return stdout?.includes('ImageMagick') ?? false;
  });
}
