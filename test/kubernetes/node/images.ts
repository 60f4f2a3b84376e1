import { archiveOf, makeImage } from '../../../deploy/image/image.ts';
import { BUSYBOX } from '../../docker/busybox.ts';
import { testImages } from '../../docker/programs.ts';
import { PAUSE } from './settings.ts';

/**
 * The images that every node has: those of the Docker tests, and the pause image that holds the namespaces of a pod.
 */
export async function nodeImages(): Promise<Buffer> {
  const images = await testImages();
  const layers = images[BUSYBOX]?.layers ?? [];
  return archiveOf({ ...images, [PAUSE]: makeImage(layers, { Entrypoint: ['/bin/sleep', '2147483647'] }) });
}
