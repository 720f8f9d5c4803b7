// Texts.
export const batches = {};
