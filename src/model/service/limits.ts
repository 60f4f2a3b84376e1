/** How much of something one definition may have. A request with more is refused before its entries are read. */

/** What is known of all members of a federation has to fit into one entry of the journal. */
export const MAX_MEMBERS = 120;

/** Inputs, outputs, and the filters of each. More than any service has, and few enough to compare each with each. */
export const MAX_STORAGE_PATHS = 100;

/** Users that one service names. Each of its buckets keeps the whole list. */
export const MAX_ALLOWED_USERS = 5_000;

/**
 * Folders of a service in the store. Fewer: a course with many users and isolation USER does not fit into one service.
 * More: one request makes the manager, which holds them all in memory, slow for everybody.
 */
export const MAX_FOLDERS = 10_000;
