import { OscarError } from '../../base/oscar-error.ts';

/**
 * Why the manager does not start on a data directory. `in-use`: another manager has it. `unusable`: it cannot be made,
 * written or read. `newer`: a later version of the program made it. The key that seals secrets is `key-missing`,
 * `key-exposed` to others on this machine, or `key-wrong`: not a key, or not the one this database was sealed with.
 */
export type DataDirectoryErrorCode = 'in-use' | 'unusable' | 'newer' | 'key-missing' | 'key-exposed' | 'key-wrong';

export class DataDirectoryError extends OscarError<DataDirectoryErrorCode> {}
