// Texts.
export const calendar = {};
