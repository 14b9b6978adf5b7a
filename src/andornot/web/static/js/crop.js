/** A part of a picture. */

import * as query from "./query.js";

/** Until parts can be drawn, the whole picture. */
export const openCrop = (picture) => query.click(picture);
