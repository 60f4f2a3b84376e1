import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseAllDocuments } from 'yaml';
import { archiveOf, makeImage } from '../../../deploy/image/image.ts';
import { tar } from '../../../deploy/image/tar.ts';
import { eventually } from '../../../src/ports/conformance/eventually.ts';
import type { Admin } from '../admin.ts';
import { operator } from '../helm.ts';
import type { Cluster } from '../node/cluster.ts';
import { knativeKit } from '../programs.ts';
import { envoyImage } from './envoy.ts';

interface Object {
  readonly kind: string;
  readonly metadata: { readonly name: string };
  readonly data?: Readonly<Record<string, string>>;
}

const PROGRAMS = ['activator', 'autoscaler', 'controller', 'queue', 'webhook', 'kourier'];

/** References to programs in the objects, which the build tool `ko` would replace by images. */
const NOT_BUILT = /ko:\/\/knative\.dev\/[a-z-]+\/cmd\/([a-z]+)/g;
const ENVOY = /docker\.io\/envoyproxy\/envoy:\S+/g;

/** Settings that an operator must make, and short periods for the tests. */
const SETTINGS: Readonly<Record<string, Readonly<Record<string, string>>>> = {
  'config-network': { 'ingress-class': 'kourier.ingress.networking.knative.dev' },
  // The images of the tests are in no registry, so their tags cannot be resolved.
  'config-deployment': { 'registries-skipping-tag-resolving': 'oscar.test' },
  // The defaults would make tests of scale-to-zero wait a minute.
  'config-autoscaler': { 'stable-window': '10s', 'scale-to-zero-grace-period': '10s' },
};

/** There is no metrics server. */
const LEFT_OUT = new Set(['HorizontalPodAutoscaler']);

const READY = '180s';

/** Installs Knative Serving and Kourier from their official objects, with images that are built here. */
export async function installKnative(cluster: Cluster): Promise<void> {
  const directory = mkdtempSync(join(tmpdir(), 'oscar-knative-'));
  try {
    const { directory: kit } = await knativeKit();
    const archive = join(directory, 'images.tar');
    writeFileSync(archive, await images(kit));
    await cluster.import(archive);
    const our = await operator(await cluster.plane.adminKubeconfig(), directory);
    const objects = objectsOf(kit);
    const isType = ({ kind }: Object) => kind === 'CustomResourceDefinition';
    const isPlace = ({ kind }: Object) => kind === 'Namespace';
    for (const part of [isType, isPlace, (each: Object) => !isType(each) && !isPlace(each)]) {
      const list = { apiVersion: 'v1', kind: 'List', items: objects.filter(part) };
      await our.kubectl(JSON.stringify(list), 'create', '-f', '-');
      if (part === isType)
        await our.kubectl('', 'wait', '--for=condition=Established', 'crd', '--all', `--timeout=${READY}`);
    }
    for (const namespace of ['knative-serving', 'kourier-system']) {
      await our.kubectl(
        '',
        '-n',
        namespace,
        'wait',
        '--for=condition=Available',
        'deployment',
        '--all',
        `--timeout=${READY}`,
      );
    }
  } finally {
    rmSync(directory, { recursive: true, force: true });
  }
}

/**
 * Creates only the resource definition of Knative Services: no controller acts on them, and only the schema is
 * validated.
 */
export async function installKnativeTypes(admin: Admin): Promise<void> {
  const { directory: kit } = await knativeKit();
  for (const object of objectsOf(kit)) {
    if (object.metadata.name !== 'services.serving.knative.dev') continue;
    await admin.do('POST', '/apis/apiextensions.k8s.io/v1/customresourcedefinitions', object);
  }
  await eventually(() => admin.do('GET', '/apis/serving.knative.dev/v1/services'), 30_000, 50);
}

async function images(kit: string): Promise<Buffer> {
  const image = (name: string) => {
    const program = { name, mode: 0o755, bytes: readFileSync(join(kit, 'bin', name)) };
    return makeImage([tar([{ name: 'tmp/', mode: 0o1777 }, program])], {
      Entrypoint: [`/${name}`],
      User: '65532:65532',
    });
  };
  const made = PROGRAMS.map((name) => [imageOf(name), image(name)] as const);
  return archiveOf({ ...Object.fromEntries(made), [imageOf('envoy')]: await envoyImage() });
}

const imageOf = (program: string) => `localhost/knative/${program}:test`;

function objectsOf(kit: string): Object[] {
  const files = readdirSync(join(kit, 'objects'), { recursive: true, encoding: 'utf8' });
  const texts = files
    .filter((name) => name.endsWith('.yaml'))
    .map((name) => readFileSync(join(kit, 'objects', name), 'utf8'));
  const objects = texts.flatMap((text) =>
    parseAllDocuments(
      text.replaceAll(NOT_BUILT, (_, program: string) => imageOf(program)).replaceAll(ENVOY, imageOf('envoy')),
    ).map((document) => document.toJS() as Object | null),
  );
  return objects.flatMap((object) => (object && !LEFT_OUT.has(object.kind) ? [settled(object)] : []));
}

function settled(object: Object): Object {
  const settings = object.kind === 'ConfigMap' ? SETTINGS[object.metadata.name] : undefined;
  return settings ? { ...object, data: { ...object.data, ...settings } } : object;
}
