import { archiveOf, makeImage } from '../../../deploy/image/image.ts';
import { BUSYBOX } from '../../docker/busybox.ts';
import { testImages } from '../../docker/programs.ts';
import { PAUSE } from './settings.ts';

/** What every node has: the images of the Docker tests, and what holds the namespaces of a pod while it lives. */
export async function nodeImages(): Promise<Buffer> {
  const images = await testImages();
  const layers = images[BUSYBOX]?.layers ?? [];
  return archiveOf({ ...images, [PAUSE]: makeImage(layers, { Entrypoint: ['/bin/sleep', '2147483647'] }) });
}
