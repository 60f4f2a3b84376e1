export { setAllowedImages } from './allowed-images.ts';
export type { Catalog } from './catalog.ts';
export { createService } from './create.ts';
export type { CatalogErrorCode } from './errors.ts';
export { findService } from './find.ts';
export { listServices } from './list.ts';
export { recoverServices } from './recover.ts';
export { removeService } from './remove.ts';
export { updateService } from './update.ts';
