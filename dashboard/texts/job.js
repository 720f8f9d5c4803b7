// Texts.
export const job = {};
